"""Every route of the service against every kind of credential: the answer is what it declares."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import RouteContext, iter_route_contexts
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.api.access import declared
from service.domain import Scope
from tests.integration.production import BASE, bearer, logged_in, production, send_form, token

Headers = dict[str, str]

PAST = datetime(2020, 1, 1, tzinfo=UTC)
NO_SCOPE: dict[str, Callable[[FastAPI], Headers]] = {
    "no token": lambda _app: {},
    "nobody's login": lambda _app: logged_in(),
    "another scheme": lambda _app: {"authorization": "Basic YTpi"},
    "malformed": lambda _app: bearer("pl_nonsense"),
    "unknown": lambda _app: bearer(f"pl_{'0' * 12}_{'1' * 64}"),
    "known id, wrong secret": lambda app: bearer(f"pl_{token(app).row.id}_{'1' * 64}"),
    "expired": lambda app: bearer(token(app, expires_at=PAST).text),
    "revoked": lambda app: bearer(token(app, revoked_at=PAST).text),
    "login of an unknown token": lambda _app: logged_in("0" * 12),
    "login of an expired token": lambda app: logged_in(token(app, expires_at=PAST).row.id),
    "login of a revoked token": lambda app: logged_in(token(app, revoked_at=PAST).row.id),
    "login signed by another": lambda app: {"cookie": logged_in(token(app).row.id)["cookie"] + "x"},
}


@pytest.fixture
def app(engine: Engine) -> Iterator[FastAPI]:
    with production(engine) as made:
        yield made


def requests(app: FastAPI) -> Iterator[tuple[str, str, RouteContext]]:
    """A method and path for every route; what it names does not exist."""
    for route in iter_route_contexts(app.routes):
        path = re.sub(r"\{[^}]+\}", str(uuid4()), route.path or "")
        for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
            yield method, path, route


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url=BASE, follow_redirects=False, raise_server_exceptions=False)


def answer(client: TestClient, method: str, path: str, headers: Headers) -> str:
    """`login`, `401` or `403`; `served` where the route itself answers, whatever it says."""
    client.cookies.clear()
    if method == "GET":
        response = client.get(path, headers=headers)
    else:
        response = send_form(client, path, headers, method=method)
    assert response.status_code < 500, (method, path, response.text)
    if response.status_code == 303 and "/ui/login" in response.headers["location"]:
        return "login"
    return refusal(response) if response.status_code in (401, 403) else "served"


def refusal(response: httpx.Response) -> str:
    """The status of a refusal, which must be of the right form."""
    if response.headers["content-type"] == "application/problem+json":
        assert response.json()["status"] == response.status_code
        assert (response.status_code == 401) is (
            response.headers.get("www-authenticate") == "Bearer"
        )
    else:
        assert response.request.url.path.startswith("/ui")
        assert not is_bearer(dict(response.request.headers))
    return str(response.status_code)


def is_bearer(headers: Headers) -> bool:
    return headers.get("authorization", "").startswith("Bearer")


def is_page(path: str) -> bool:
    return path.startswith("/ui")


@pytest.mark.parametrize("kind", NO_SCOPE)
def test_who_has_no_valid_token_reaches_what_is_open(app: FastAPI, client: TestClient, kind: str):
    headers = NO_SCOPE[kind](app)
    expected, found = {}, {}
    for method, path, route in requests(app):
        by_browser = is_page(path) and not is_bearer(headers)
        if declared(route) is not None:
            expected[method, path] = "login" if by_browser else "401"
        elif method == "POST" and by_browser and not is_signed(headers):
            expected[method, path] = "403"  # no form of ours: it is bound to no login
        else:
            expected[method, path] = "login" if path == "/ui/logout" else "served"
        found[method, path] = answer(client, method, path, headers)
    assert found == expected


def is_signed(headers: Headers) -> bool:
    """Whether a form can be bound to the login in these headers."""
    return "cookie" in headers and not headers["cookie"].endswith("x")


@pytest.mark.parametrize("by", ["token", "login"])
@pytest.mark.parametrize("scope", Scope)
def test_a_scope_opens_what_it_includes_and_nothing_else(
    app: FastAPI, client: TestClient, scope: Scope, by: str
):
    made = token(app, "ada", scope)
    headers = bearer(made.text) if by == "token" else logged_in(made.row.id)
    expected, found = {}, {}
    for method, path, route in requests(app):
        needed = declared(route)
        is_let_in = needed is None or needed in scope.includes
        expected[method, path] = "served" if is_let_in else "403"
        if path == "/ui/logout":
            expected[method, path] = "login"
        found[method, path] = answer(client, method, path, headers)
    assert found == expected


def test_what_each_route_declares(app: FastAPI):
    """Reading is the rule; what is written down here is every exception to it."""
    found: dict[str, list[str]] = {}
    for method, path, route in requests(app):
        scope = declared(route)
        if scope is not Scope.READ:
            word = "open" if scope is None else scope.value
            place = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", path)
            found.setdefault(word, []).append(f"{method} {place}")
    assert {word: sorted(places) for word, places in found.items()} == {
        "open": [
            "GET /",
            "GET /healthz",
            "GET /readyz",
            "GET /ui/login",
            "GET /ui/static/*/*",
            "POST /ui/login",
            "POST /ui/logout",
        ],
        "runs:write": ["POST /runs", "POST /runs/*/cancel", "POST /ui/runs/*/cancel"],
        "admin": [
            "DELETE /projects/*/schedules/*",
            "GET /tokens",
            "POST /projects",
            "POST /tokens",
            "POST /tokens/*/revoke",
            "PUT /projects/*/schedules/*",
        ],
    }


def test_only_reading_needs_no_more_than_read(app: FastAPI):
    writing = [(path, declared(route)) for method, path, route in requests(app) if method != "GET"]
    assert {path for path, scope in writing if scope is Scope.READ} == set()
