"""Every refusal is a problem document, whoever refuses: a route, the framework, the loopback."""

from uuid import uuid4

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.errors import LeaseLost
from tests.api import BASE, BODY, Outbox, make_app, pointers, problem
from tests.conftest import on_sqlite


@on_sqlite
@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 422),
        (b"", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"main"', 422),
        (b"\xff\xfe", 422),
        (b'{"project": "\\ud800", "candidate": "a"}', 422),
        (b"[" * 100_000, 400),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_json_object(client: TestClient, content: bytes, status: int):
    headers = {"content-type": "application/json"}
    problem(client.post("/runs", content=content, headers=headers), status)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", f"/runs/{uuid4()}", 404),
        ("POST", f"/runs/{uuid4()}/cancel", 404),
        ("GET", "/projects/nowhere", 404),
        ("GET", "/clusters/nowhere", 404),
        ("GET", "/runs/not-an-id", 422),
        ("GET", "/runs?limit=0", 422),
        ("GET", "/runs?limit=201", 422),
        ("GET", "/runs?limit=many", 422),
        ("GET", "/runs?before=yesterday", 422),
        ("GET", "/runs?cursor=yesterday", 422),
        ("GET", "/projects?cursor=%00", 422),
        ("GET", "/runs?project=%00", 422),
        ("GET", "/projects/a%00b", 422),
        ("GET", "/clusters/a%00b", 422),
        ("DELETE", "/runs", 405),
        ("PUT", "/projects", 405),
        ("POST", "/healthz", 405),
    ],
)
def test_every_refusal_is_a_problem(client: TestClient, method: str, path: str, status: int):
    response = client.request(method, path)
    problem(response, status)
    assert status != 405 or response.headers["allow"]


@on_sqlite
def test_validation_of_a_query_names_the_parameter(client: TestClient):
    assert pointers(client.get("/runs?limit=0")) == ["/limit"]


@on_sqlite
def test_our_own_failure_tells_no_details(app: FastAPI, client: TestClient):
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("the password is hunter2")

    @app.get("/lost")
    def lost() -> None:
        raise LeaseLost("an error that no route should let out")

    for path in ("/broken", "/lost"):
        body = problem(client.get(path), 500)
        assert "hunter2" not in str(body)


@on_sqlite
@pytest.mark.parametrize(
    "host", ["127.0.0.1:8321", "localhost:8321", "localhost", "[::1]:8321", "127.0.0.1"]
)
def test_this_machine_is_answered(client: TestClient, host: str):
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@on_sqlite
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8321", "", "[", "10.0.0.1"]
)
def test_a_foreign_host_is_refused(client: TestClient, host: str):
    problem(client.get("/healthz", headers={"host": host}), 400)


@on_sqlite
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1.evil.example:8321",
        "http://127.0.0.1:9999",
        "http://localhost:8321",
        "null",
        "http://[",
        "",
    ],
)
def test_a_foreign_origin_is_refused(client: TestClient, outbox: Outbox, origin: str):
    problem(client.post("/runs", json=BODY, headers={"origin": origin}), 403)
    assert outbox.messages == []


@on_sqlite
def test_our_own_pages_may_act(client: TestClient):
    assert client.post("/runs", json=BODY, headers={"origin": BASE}).status_code == 202


def test_health_and_readiness(empty_engine: Engine):
    app = make_app(empty_engine)
    with TestClient(app, base_url=BASE) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert "paceline db upgrade" in problem(client.get("/readyz"), 503)["detail"]


def test_readiness_after_the_migration(client: TestClient):
    assert client.get("/readyz").json() == {"status": "ready"}
