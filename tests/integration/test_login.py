"""Logging in and out, and the forms on pages: who may send them, and who cannot have them sent."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.api import login
from service.config import Settings
from service.db import runs as runs_db
from service.db.session import transaction
from service.domain import Scope, Status
from service.main import create_app
from service.usecases import access
from tests import factories
from tests.conftest import on_sqlite
from tests.integration.production import BASE, KEY, logged_in, production, send_form, token

LOOPBACK = "http://127.0.0.1:8321"


@pytest.fixture
def app(engine: Engine) -> Iterator[FastAPI]:
    with production(engine) as made:
        yield made


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url=BASE, follow_redirects=False)


@pytest.fixture
def alone(engine: Engine) -> Iterator[FastAPI]:
    """The standalone service, its worker not started."""
    app = create_app(Settings(database_url=engine.url.render_as_string(hide_password=False)))
    app.state.send = factories.unsent
    yield app
    app.state.engine.dispose()


def run(app: FastAPI) -> UUID:
    with transaction(app.state.sessions, app.state.send) as session:
        return factories.run(session).id


def status(app: FastAPI, run_id: UUID) -> Status:
    with app.state.sessions() as session:
        return runs_db.run(session, run_id).status


def fields(page: httpx.Response) -> dict[str, str]:
    """Hidden fields of the last form on a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    return {name: value.replace("&amp;", "&") for name, value in found}


def log_in(client: TestClient, text: str, path: str = "/ui") -> httpx.Response:
    """As a browser does it: ask for a page, follow to the form, send it."""
    form = client.get(client.get(path).headers["location"])
    body = urlencode({**fields(form), "token": text})
    kind = {"content-type": "application/x-www-form-urlencoded", "origin": str(client.base_url)}
    return client.post("/ui/login", content=body, headers=kind)


def test_a_login_leads_back_to_the_page_that_was_asked_for(app: FastAPI, client: TestClient):
    made, path = token(app), "/ui?project=tinylm&before=x"
    response = log_in(client, f" {made.text}\n", path)
    assert (response.status_code, response.headers["location"]) == (303, path)
    page = client.get("/ui")
    assert page.status_code == 200
    assert re.search(r"ada <button>Log out", page.text)


@on_sqlite
def test_the_cookie_names_the_token_and_only_the_browser_reads_it(app: FastAPI, client: TestClient):
    made = token(app)
    cookie = log_in(client, made.text).headers["set-cookie"]
    value = cookie.partition("=")[2].partition(";")[0]
    assert login.token_id(KEY, value) == made.row.id
    assert made.text.rpartition("_")[2] not in cookie
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert attributes == {"httponly", "max-age=43200", "path=/", "samesite=lax"}


@on_sqlite
def test_over_https_the_cookie_stays_there(app: FastAPI):
    client = TestClient(app, base_url="https://paceline.example", follow_redirects=False)
    assert "; Secure" in log_in(client, token(app).text).headers["set-cookie"]


@on_sqlite
@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/ui\\evil", ""])
def test_a_login_leads_nowhere_else(app: FastAPI, client: TestClient, target: str):
    response = send_form(client, "/ui/login", logged_in(), token=token(app).text, next=target)
    assert (response.status_code, response.headers["location"]) == (303, "/ui")


def test_a_wrong_token_is_told_on_the_form(app: FastAPI, client: TestClient):
    response = log_in(client, f"pl_{'0' * 12}_{'1' * 64}", "/ui?project=a")
    assert response.status_code == 422
    assert "The token is unknown here." in response.text
    assert fields(response)["next"] == "/ui?project=a"
    assert client.get("/ui").status_code == 303


def test_logging_out_forgets_the_login(app: FastAPI, client: TestClient):
    log_in(client, token(app).text)
    form = fields(client.get("/ui"))
    response = client.post("/ui/logout", data=form, headers={"origin": BASE})
    assert (response.status_code, response.headers["location"]) == (303, "/ui/login")
    assert client.get("/ui").status_code == 303


def test_a_revoked_token_ends_its_logins(app: FastAPI, client: TestClient):
    made = token(app)
    log_in(client, made.text)
    assert client.get("/ui").status_code == 200
    with app.state.sessions.begin() as session:
        access.revoke(session, made.row.id)
    assert client.get("/ui").status_code == 303
    assert client.get("/runs").status_code == 401


def test_the_button_cancels_a_run(app: FastAPI, client: TestClient):
    made, run_id = token(app, "ada", Scope.RUNS_WRITE), run(app)
    headers = logged_in(made.row.id)
    page = client.get(f"/ui/runs/{run_id}", headers=headers)
    assert "Cancel run" in page.text
    for _ in range(2):  # the second finds it cancelled, and shows that
        response = client.post(
            f"/ui/runs/{run_id}/cancel", data=fields(page), headers={"origin": BASE, **headers}
        )
        assert response.headers["location"] == f"/ui/runs/{run_id}"
        assert status(app, run_id) is Status.CANCELLED
    assert "Cancel run" not in client.get(f"/ui/runs/{run_id}", headers=headers).text


@on_sqlite
def test_who_may_only_read_sees_no_button(app: FastAPI, client: TestClient):
    page = client.get(f"/ui/runs/{run(app)}", headers=logged_in(token(app).row.id))
    assert page.status_code == 200
    assert "Cancel run" not in page.text


ELSEWHERE = {
    "no form token": {"form_token": ""},
    "another login's form token": {"form_token": login.form_token(KEY, login.issue(KEY))},
    "another site": {"origin": "https://evil.example"},
    "another port": {"origin": f"{BASE}:8080"},
    "no origin": {"origin": ""},
    "a hidden origin": {"origin": "null"},
}


def send_from(client: TestClient, path: str, headers: dict[str, str], kind: str) -> httpx.Response:
    """A form that another page than ours has a logged-in browser send."""
    change = dict(ELSEWHERE[kind])
    origin = {"origin": change.pop("origin")} if "origin" in change else {}
    return send_form(client, path, {**headers, **origin}, **change)


@on_sqlite
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_another_site_cannot_have_a_run_cancelled(app: FastAPI, client: TestClient, kind: str):
    made, run_id = token(app, "ada", Scope.ADMIN), run(app)
    headers = logged_in(made.row.id)
    for path in (f"/ui/runs/{run_id}/cancel", f"/runs/{run_id}/cancel"):
        response = send_from(client, path, headers, kind)
        assert response.status_code == 403
        assert "load its page again" in response.text
    assert status(app, run_id) is Status.QUEUED


@on_sqlite
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_another_site_can_log_nobody_in_or_out(app: FastAPI, client: TestClient, kind: str):
    made = token(app)
    for path, headers in (("/ui/login", logged_in()), ("/ui/logout", logged_in(made.row.id))):
        response = send_from(client, path, headers, kind)
        assert response.status_code == 403
        assert "set-cookie" not in response.headers


@on_sqlite
def test_a_login_acts_through_forms_only(app: FastAPI, client: TestClient):
    headers = logged_in(token(app, "ada", Scope.ADMIN).row.id)
    body = {"name": "mine", "scopes": ["admin"]}
    response = client.post("/tokens", json=body, headers={"origin": BASE, **headers})
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"


@on_sqlite
def test_standalone_has_the_button_and_no_logout(alone: FastAPI):
    client, run_id = TestClient(alone, base_url=LOOPBACK, follow_redirects=False), run(alone)
    page, path = client.get(f"/ui/runs/{run_id}"), f"/ui/runs/{run_id}/cancel"
    assert "Log out" not in page.text
    assert client.post(path, headers={"origin": LOOPBACK}).status_code == 403
    assert client.post(path, data=fields(page)).status_code == 403
    assert status(alone, run_id) is Status.QUEUED
    response = client.post(path, data=fields(page), headers={"origin": LOOPBACK})
    assert response.status_code == 303
    assert status(alone, run_id) is Status.CANCELLED


@on_sqlite
def test_only_standalone_refuses_foreign_hosts(alone: FastAPI, client: TestClient):
    assert TestClient(alone, base_url=BASE).get("/healthz").status_code == 400
    assert client.get("/healthz").status_code == 200
