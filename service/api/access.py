"""Who may do what: every route declares the scope it needs, or that it is open to all."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from service.api import login
from service.config import Settings
from service.db.session import transaction
from service.domain import LOCAL, Principal, Scope
from service.errors import Forbidden, Refused, Unauthenticated
from service.usecases.access import authenticate, holder

_SHORTEST_KEY = 32
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a service knows who asks. `key` signs logins and forms."""

    asks_token: bool
    key: str


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Whom a page is shown to. Each of its forms carries `form_token`."""

    principal: Principal
    form_token: str
    has_login: bool


def from_settings(settings: Settings) -> Access:
    """Access as configured. A standalone service makes a key for as long as it lives.

    Raises Refused where a service that asks for tokens has no key, or a short one.
    """
    if settings.is_standalone:
        return Access(asks_token=False, key=secrets.token_urlsafe(_SHORTEST_KEY))
    key = settings.secret_key.get_secret_value()
    if len(key) < _SHORTEST_KEY:
        raise Refused(
            "PACELINE_SECRET_KEY",
            f"PACELINE_SECRET_KEY must be set to {_SHORTEST_KEY} characters or more, the same for "
            "every API process. Make one: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return Access(asks_token=True, key=key)


async def form_fields(request: Request) -> Mapping[str, str]:
    """Fields of an HTML form; none where the body is something else."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/x-www-form-urlencoded":
        return {}
    return dict(parse_qsl((await request.body()).decode(errors="replace")))


FormDep = Annotated[Mapping[str, str], Depends(form_fields)]


async def is_our_form(request: Request, form: FormDep) -> bool:
    """Whether a request is a form from a page of ours that was shown to this very browser."""
    access: Access = request.app.state.access
    host, cookie = request.headers.get("host", ""), request.cookies.get(login.COOKIE, "")
    if request.headers.get("origin") not in (f"http://{host}", f"https://{host}"):
        return False
    if access.asks_token and login.token_id(access.key, cookie) is None:
        return False
    return login.is_form_token(access.key, cookie, form.get("form_token", ""))


IsOurFormDep = Annotated[bool, Depends(is_our_form)]
BearerDep = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="A token: `pl_<id>_<secret>`.")),
]


def get_principal(request: Request, bearer: BearerDep, is_ours: IsOurFormDep) -> Principal:
    """Who asks: by token, or by a login, which acts through forms only. Raises Unauthenticated.

    A request's own transaction comes later, so that a refused one counts as a use too, and no
    request holds the token's row while it works.
    """
    state = request.app.state
    if not state.access.asks_token:
        return LOCAL
    with transaction(state.sessions, state.send) as session:
        if bearer is not None:
            return authenticate(session, bearer.credentials)
        token_id = login.token_id(state.access.key, request.cookies.get(login.COOKIE, ""))
        if not token_id:
            detail = "This needs a token: send the header `Authorization: Bearer pl_<id>_<secret>`."
            raise Unauthenticated(detail)
        principal = holder(session, token_id)
    if request.method not in _SAFE:
        require_form(bearer, is_ours)
    return principal


PrincipalDep = Annotated[Principal, Depends(get_principal)]


def get_visitor(request: Request, bearer: BearerDep, principal: PrincipalDep) -> Visitor:
    """Whom a page is shown to."""
    access: Access = request.app.state.access
    return Visitor(
        principal=principal,
        form_token=login.form_token(access.key, request.cookies.get(login.COOKIE, "")),
        has_login=access.asks_token and bearer is None,
    )


VisitorDep = Annotated[Visitor, Depends(get_visitor)]


def require_form(bearer: BearerDep, is_ours: IsOurFormDep) -> None:
    """Refuse a form that another site may have had a browser send. No site can add a token."""
    if bearer is None and not is_ours:
        raise Forbidden("This form is not ours, or out of date: load its page again.")


@dataclass(frozen=True)
class Needs:
    """A dependency that refuses who lacks a scope."""

    scope: Scope

    def __call__(self, principal: PrincipalDep) -> None:
        """Raises Unauthenticated and Forbidden."""
        if not principal.may(self.scope):
            held = ", ".join(sorted(principal.scopes))
            detail = f"This needs the scope {self.scope}; the token {principal.name!r} has {held}."
            raise Forbidden(detail)


def open_to_all() -> None:
    """A dependency that refuses nobody."""


def needs(scope: Scope) -> Any:
    """Declares that a route needs this scope."""
    return Depends(Needs(scope))


OPEN: Any = Depends(open_to_all)
OUR_FORM: Any = Depends(require_form)


def declared(route: RouteContext) -> Scope | None:
    """The scope a route needs; None where it is open. Raises RuntimeError where it says neither."""
    dependant = getattr(route, "dependant", None)
    calls = [] if dependant is None else [item.call for item in dependant.dependencies]
    scopes = [call.scope for call in calls if isinstance(call, Needs)]
    if len(scopes) + calls.count(open_to_all) != 1:
        raise RuntimeError(f"The route {route.path} must declare either needs(Scope...) or OPEN.")
    return scopes[0] if scopes else None


def check(app: FastAPI) -> None:
    """Raises RuntimeError where a route does not say who may use it."""
    for route in iter_route_contexts(app.routes):
        declared(route)
