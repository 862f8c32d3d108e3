"""What holds for every request: ids, sizes, media types, methods, compression."""

import json
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.testclient import TestClient

from service.api.manners import MAX_BODY_BYTES, MAX_URL_BYTES
from service.logs import request_id
from tests.api import BODY, Outbox, problem
from tests.conftest import on_sqlite

pytestmark = on_sqlite
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("ident", ["7", "a.B_c-9", "x" * 64])
def test_a_request_keeps_the_id_it_came_with(client: TestClient, ident: str):
    response = client.get("/nowhere", headers={"x-request-id": ident})
    assert response.headers["x-request-id"] == problem(response, 404)["request_id"] == ident


@pytest.mark.parametrize("ident", ["", "a b", "x" * 65, "ä", "a;b"])
def test_a_request_without_a_proper_id_gets_one(client: TestClient, ident: str):
    headers = {"x-request-id": ident.encode()}
    first, second = (client.get("/healthz", headers=headers) for _ in range(2))
    ids = {response.headers["x-request-id"] for response in (first, second)}
    assert len(ids) == 2
    assert ident not in ids


def test_the_id_is_known_wherever_the_request_is_served(app: FastAPI, client: TestClient):
    @app.get("/id")
    def ident() -> str:
        return request_id.get()

    assert client.get("/id", headers={"x-request-id": "mine"}).json() == "mine"
    assert request_id.get() == ""


def test_an_unexpected_failure_tells_its_id(app: FastAPI, client: TestClient):
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError

    response = client.get("/broken", headers={"x-request-id": "mine"})
    assert problem(response, 500)["request_id"] == "mine"


def body_of(num_bytes: int) -> bytes:
    empty = len(json.dumps({**BODY, "suite": ""}))
    return json.dumps({**BODY, "suite": "s" * (num_bytes - empty)}).encode()


def chunks(content: bytes) -> Iterator[bytes]:
    yield from (content[start : start + 2**16] for start in range(0, len(content), 2**16))


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_has_a_limit(client: TestClient, outbox: Outbox, is_chunked: bool):
    for num_bytes, status in ((MAX_BODY_BYTES, 202), (MAX_BODY_BYTES + 1, 413)):
        content = body_of(num_bytes)
        assert len(content) == num_bytes
        sent = chunks(content) if is_chunked else content
        response = client.post("/runs", content=sent, headers=JSON)
        assert response.status_code == status
    assert str(MAX_BODY_BYTES) in problem(response, 413)["detail"]
    assert len(outbox.messages) == 1


def test_an_address_has_a_limit(client: TestClient):
    room = MAX_URL_BYTES - len("/runs" + "project=")
    assert client.get(f"/runs?project={'p' * room}").status_code == 200
    problem(client.get(f"/runs?project={'p' * (room + 1)}"), 414)
    problem(client.get("/" + "p" * MAX_URL_BYTES), 414)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("", 200),
        ("application/json", 200),
        ("text/html, application/*;q=0.5", 200),
        ("text/html,application/xhtml+xml,*/*;q=0.8", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/html", 406),
        ("application/json;q=0, */*", 406),
        ("application/json; q=0.0", 406),
    ],
)
def test_the_caller_must_read_json(client: TestClient, accept: str, status: int):
    response = client.get("/runs", headers={"accept": accept})
    assert response.status_code == status
    if status == 406:
        problem(response, 406)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 202),
        ("application/json; charset=utf-8", 202),
        ("application/merge-patch+json", 202),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
def test_a_body_must_be_called_json(client: TestClient, kind: str, status: int):
    content = json.dumps(BODY)
    response = client.post("/runs", content=content, headers={"content-type": kind})
    assert response.status_code == status
    if status == 415:
        problem(response, 415)
        assert response.headers["accept"] == "application/json"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/runs", "GET, HEAD, POST"),
        ("PUT", "/projects", "GET, HEAD, POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("HEAD", "/runs/x/cancel", "POST"),
        ("OPTIONS", "/projects/x", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_served(client: TestClient, method: str, path: str, allowed: str):
    response = client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed


def test_head_is_get_without_the_body(client: TestClient):
    head, get = client.head("/projects"), client.get("/projects")
    assert (head.status_code, head.content) == (200, b"")
    ours = ("content-length", "content-type")
    assert [head.headers[name] for name in ours] == [get.headers[name] for name in ours]
    assert client.head("/nowhere").status_code == 404


def test_large_answers_are_compressed(client: TestClient):
    for _ in range(3):
        client.post("/runs", json=BODY)
    large, small = client.get("/runs"), client.get("/healthz")
    assert large.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in large.headers["vary"]
    assert "content-encoding" not in small.headers
    plain = client.get("/runs", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == large.json()


def test_event_streams_are_not_compressed(app: FastAPI, client: TestClient):
    @app.get("/events")
    def events() -> StreamingResponse:
        return StreamingResponse(iter(["data: x\n\n"] * 1000), media_type="text/event-stream")

    response = client.get("/events")
    assert "content-encoding" not in response.headers
    assert len(response.content) == 9000
