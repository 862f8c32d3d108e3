"""Logging in and out with a token. Logging in shows it once; a signed cookie stands for it then."""

import re
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from dashboards.responses import PageRoute, page, see
from dashboards.templating import ROOT
from service.api import login
from service.api.access import OPEN, OUR_FORM, FormDep
from service.api.deps import SessionDep
from service.errors import Unauthenticated
from service.usecases import access

router = APIRouter(route_class=PageRoute, include_in_schema=False)

# A path of ours: browsers read a backslash as a slash and drop control characters.
_OURS = re.compile(rf"{ROOT}([/?][!-\[\]-~]*)?")


@router.get("/login", dependencies=[OPEN])
def show(request: Request, next: str = ROOT) -> Response:
    """The login form, which leads on to `next`."""
    return _form(request, next)


@router.post("/login", dependencies=[OPEN, OUR_FORM])
def log_in(request: Request, form: FormDep, session: SessionDep) -> Response:
    """Log in, or the form again with what is wrong with the token."""
    target = form.get("next", ROOT)
    try:
        token_id = access.log_in(session, form.get("token", "").strip())
    except Unauthenticated as error:
        return _form(request, target, error=str(error))
    response = see(_own_path(target))
    login.set_cookie(request, response, login.issue(request.app.state.access.key, token_id))
    return response


@router.post("/logout", dependencies=[OPEN, OUR_FORM])
def log_out() -> Response:
    """Have the browser forget the login."""
    response = see(f"{ROOT}/login")
    response.delete_cookie(login.COOKIE)
    return response


def _form(request: Request, target: str, error: str | None = None) -> Response:
    """The form, bound to the browser's cookie, which it gets now if it has none."""
    key = request.app.state.access.key
    cookie = request.cookies.get(login.COOKIE, "")
    if login.token_id(key, cookie) is None:
        cookie = login.issue(key)
    values = {"next": target, "error": error, "form_token": login.form_token(key, cookie)}
    status = HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY
    response = page("login.html", values, status=status)
    login.set_cookie(request, response, cookie)
    return response


def _own_path(target: str) -> str:
    """Where to go after the login: `target` if it is a page of ours, else the first page."""
    return target if _OURS.fullmatch(target) else ROOT
