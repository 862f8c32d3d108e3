"""The HTTP API on both databases: what it takes, what it refuses, and how it says so."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.testclient import TestClient

from service.api import errors, health, loopback, registry, runs
from service.api.access import Access
from service.db import runs as runs_db
from service.db.session import Message, Sessions, make_sessions, send_after_commit, transaction
from service.domain import Failure, FailureReason, Status
from service.errors import LeaseLost
from tests import factories
from tests.conftest import on_sqlite

BASE = "http://127.0.0.1:8321"
BODY = {"project": "tinylm", "baseline": "main", "candidate": "faster"}


class Outbox:
    """Where messages go instead of a broker; remembers what was readable when each was sent."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.messages: list[Message] = []
        self.error: Exception | None = None

    def __call__(self, message: Message) -> None:
        if self.error is not None:
            raise self.error
        with self.sessions() as session:
            runs_db.run(session, UUID(message.ids[0]))  # raises where it is not committed yet
        self.messages.append(message)


def make_app(engine: Engine) -> FastAPI:
    app = FastAPI()
    app.state.engine, app.state.sessions = engine, make_sessions(engine)
    app.state.send = Outbox(app.state.sessions)
    app.state.access = Access(asks_token=False, key="k" * 32)
    errors.install(app)
    loopback.install(app)
    for router in (runs.router, registry.router, health.router):
        app.include_router(router)
    return app


@pytest.fixture
def app(engine: Engine, tmp_path: Path) -> FastAPI:
    made = make_app(engine)
    with transaction(made.state.sessions, made.state.send) as session:
        factories.cluster(session)
        factories.project(session)
    return made


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def outbox(app: FastAPI) -> Outbox:
    found: Outbox = app.state.send
    return found


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a response that must have that status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


def pointers(response: httpx.Response) -> list[str]:
    return [error["pointer"] for error in problem(response, 422)["errors"]]


def test_a_run_is_accepted_and_can_be_followed(client: TestClient, outbox: Outbox):
    response = client.post("/runs", json=BODY)
    assert response.status_code == 202
    run = response.json()
    assert response.headers["location"] == f"/runs/{run['id']}"
    assert (run["status"], run["verdict"], run["intent"]) == ("queued", None, "gate")
    assert run["baseline"]["requested"] == "main"
    assert run["candidate"]["requested"] == "faster"
    assert run["requested_by"] == "local"
    assert outbox.messages == [Message("paceline.plan_run", (run["id"],))]

    detail = client.get(response.headers["location"]).json()
    assert detail["pairs"] == detail["trials"] == detail["comparisons"] == []
    assert detail["headline"] == "The run waits for a worker."


def test_a_run_tells_what_was_asked_for(client: TestClient):
    asked = {"suite": None, "cases": ["a", "b"], "max_pairs": 8, "budget_device_hours": 0.5}
    response = client.post("/runs", json=BODY | asked)
    detail = client.get(response.headers["location"]).json()
    assert {name: detail[name] for name in asked} == asked


def test_a_side_may_be_an_object(client: TestClient):
    side = {"revision": "v1", "environment": {"NCCL_ALGO": "Ring"}, "arguments": ["--fused"]}
    response = client.post("/runs", json={**BODY, "candidate": side})
    assert response.status_code == 202
    found = response.json()["candidate"]
    assert found["requested"] == "v1"
    assert found["environment"] == {"NCCL_ALGO": "Ring"}
    assert found["arguments"] == ["--fused"]


def test_without_a_baseline_the_first_parent_is_asked_for(client: TestClient):
    response = client.post("/runs", json={"project": "tinylm", "candidate": "faster"})
    assert response.json()["baseline"]["requested"] == "faster^1"


@on_sqlite
@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"project": None}, "/project"),
        ({"candidate": None}, "/candidate"),
        ({"candidate": ""}, "/candidate/revision"),
        ({"candidate": "--upload-pack=x"}, "/candidate/revision"),
        ({"candidate": "-x"}, "/candidate/revision"),
        ({"candidate": "ma\0in"}, "/candidate/revision"),
        ({"candidate": "ma in"}, "/candidate/revision"),
        ({"candidate": "ma\nin"}, "/candidate/revision"),
        ({"candidate": "m" * 251}, "/candidate/revision"),
        ({"candidate": {"revision": "main", "images": "x"}}, "/candidate/images"),
        ({"candidate": {"revision": "m", "environment": {"A-B": "1"}}}, None),
        ({"candidate": {"revision": "m", "environment": {"A": "\0"}}}, "/candidate/environment/A"),
        ({"candidate": {"revision": "m", "arguments": ["\0"]}}, "/candidate/arguments/0"),
        ({"candidate": {"revision": "m", "image": "img:1"}}, "/candidate/image"),
        ({"baseline": {"revision": "m", "image": "img:1"}}, "/baseline/image"),
        ({"baseline": 5}, "/baseline"),
        ({"baseline": ["main"]}, "/baseline"),
        ({"project": "a\0b"}, "/project"),
        ({"cluster": "a\0b"}, "/cluster"),
        ({"suite": "a\0b"}, "/suite"),
        ({"cases": []}, "/cases"),
        ({"cases": ["a\0b"]}, "/cases/0"),
        ({"intent": "gatecrash"}, "/intent"),
        ({"max_pairs": 2}, "/max_pairs"),
        ({"max_pairs": 21}, "/max_pairs"),
        ({"max_pairs": 10**30}, "/max_pairs"),
        ({"budget_device_hours": 0}, "/budget_device_hours"),
        ({"pairs/max": 1}, "/pairs~1max"),
        ({"~": 1}, "/~0"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_wrong_body_is_refused_by_field(
    client: TestClient, outbox: Outbox, change: dict[str, Any], pointer: str | None
):
    response = client.post("/runs", json={**BODY, **change})
    found = pointers(response)
    assert pointer is None or found == [pointer]
    assert outbox.messages == []
    assert client.get("/runs").json()["items"] == []


@on_sqlite
@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "-1", '"much"'])
def test_a_budget_is_a_number(client: TestClient, number: str):
    body = f'{{"project": "tinylm", "candidate": "a", "budget_device_hours": {number}}}'
    response = client.post("/runs", content=body, headers={"content-type": "application/json"})
    assert pointers(response) == ["/budget_device_hours"]


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


@on_sqlite
def test_a_body_of_another_kind(client: TestClient):
    problem(client.post("/runs", data={"project": "tinylm"}), 422)


@pytest.mark.parametrize("change", [{"project": "nowhere"}, {"cluster": "moon"}])
def test_what_does_not_exist_is_named(client: TestClient, change: dict[str, str]):
    (name,) = change.values()
    body = problem(client.post("/runs", json={**BODY, **change}), 404)
    assert f"'{name}'" in body["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", f"/runs/{uuid4()}", 404),
        ("POST", f"/runs/{uuid4()}/cancel", 404),
        ("GET", f"/runs?before={uuid4()}", 404),
        ("GET", "/projects/nowhere", 404),
        ("GET", "/clusters/nowhere", 404),
        ("GET", "/runs/not-an-id", 422),
        ("GET", "/runs?limit=0", 422),
        ("GET", "/runs?limit=201", 422),
        ("GET", "/runs?limit=many", 422),
        ("GET", "/runs?before=yesterday", 422),
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


def test_cancelling(client: TestClient, outbox: Outbox):
    run = client.post("/runs", json=BODY).json()
    response = client.post(f"/runs/{run['id']}/cancel")
    assert response.status_code == 202
    assert response.json()["status"] == "cancelled"
    assert response.json()["verdict"] is None
    assert "cancelled" in client.get(f"/runs/{run['id']}").json()["headline"]
    body = problem(client.post(f"/runs/{run['id']}/cancel"), 409)
    assert "has ended (cancelled)" in body["detail"]


def test_a_failed_run_says_why(client: TestClient, app: FastAPI):
    run = client.post("/runs", json=BODY).json()
    with transaction(app.state.sessions, app.state.send) as session:
        row = runs_db.lock(session, UUID(run["id"]))
        failure = Failure(reason=FailureReason.UNKNOWN_REVISION, detail="No such commit.")
        runs_db.finish(session, row, Status.FAILED, failure)
    found = client.get(f"/runs/{run['id']}").json()
    assert (found["status"], found["failure_reason"]) == ("failed", "unknown_revision")
    assert found["verdict"] is None
    assert "No such commit." in found["headline"]


def test_pages_of_runs_hold_each_run_once(client: TestClient):
    ids = [client.post("/runs", json=BODY).json()["id"] for _ in range(5)]
    seen, before = [], ""
    while True:
        page = client.get(f"/runs?limit=2{before}").json()
        seen += [item["id"] for item in page["items"]]
        if page["next_before"] is None:
            break
        before = f"&before={page['next_before']}"
    assert seen == ids[::-1]


def test_runs_made_in_the_same_instant_are_paged_too(client: TestClient, app: FastAPI):
    ids = {client.post("/runs", json=BODY).json()["id"] for _ in range(4)}
    with transaction(app.state.sessions, app.state.send) as session:
        for run_id in ids:
            runs_db.lock(session, UUID(run_id)).created_at = factories.NOON
    first = client.get("/runs?limit=2").json()
    second = client.get(f"/runs?limit=4&before={first['next_before']}").json()
    found = [item["id"] for item in first["items"] + second["items"]]
    assert len(found) == 4
    assert set(found) == ids


def test_runs_of_one_project(client: TestClient, app: FastAPI):
    with transaction(app.state.sessions, app.state.send) as session:
        factories.project(session, "other")
    client.post("/runs", json={**BODY, "project": "other"})
    mine = client.post("/runs", json=BODY).json()
    items = client.get("/runs?project=tinylm").json()["items"]
    assert [item["id"] for item in items] == [mine["id"]]
    assert client.get("/runs?project=unheard-of").json()["items"] == []


def test_registering_a_project_twice_changes_nothing(client: TestClient, tmp_path: Path):
    body = {"name": "mine", "source": str(tmp_path)}
    first, second = client.post("/projects", json=body), client.post("/projects", json=body)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json() == client.get("/projects/mine").json()
    names = [project["name"] for project in client.get("/projects").json()]
    assert names == ["mine", "tinylm"]


def test_registering_a_project_with_another_source_is_a_conflict(
    client: TestClient, tmp_path: Path
):
    client.post("/projects", json={"name": "mine", "source": str(tmp_path)})
    other = client.post("/projects", json={"name": "mine", "source": "https://h/other"})
    assert str(tmp_path) in problem(other, 409)["detail"]


def test_many_may_register_a_project_at_once(client: TestClient, tmp_path: Path):
    statuses: list[int] = []
    barrier = threading.Barrier(5)

    def register() -> None:
        barrier.wait()
        body = {"name": "mine", "source": str(tmp_path)}
        statuses.append(client.post("/projects", json=body).status_code)

    threads = [threading.Thread(target=register) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 5


@on_sqlite
@pytest.mark.parametrize(
    ("name", "source", "pointer"),
    [
        ("", "https://h/p", "/name"),
        ("../x", "https://h/p", "/name"),
        ("n" * 101, "https://h/p", "/name"),
        ("mine", "", "/source"),
        ("mine", "relative/path", "/source"),
        ("mine", "/no/such/folder", "/source"),
        ("mine", "--upload-pack=x", "/source"),
        ("mine", "ext::sh -c x", "/source"),
        ("mine", "https://h/\0", "/source"),
        ("mine", "https://ada:s3cret@h/a.git", "/source"),
        ("mine", "HTTPS://t0ken@h/a.git", "/source"),
        ("mine", "ssh://git:s3cret@h/a", "/source"),
        ("mine", "/" + "x" * 1000, "/source"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_wrong_project_is_refused(client: TestClient, name: str, source: str, pointer: str):
    assert pointers(client.post("/projects", json={"name": name, "source": source})) == [pointer]


@on_sqlite
@pytest.mark.parametrize(
    "source", ["https://host/a.git", "ssh://git@host/a", "git@host:a/b.git", "file:///srv/a.git"]
)
def test_sources_git_can_clone(client: TestClient, source: str):
    assert client.post("/projects", json={"name": "p", "source": source}).status_code == 201


def test_clusters(client: TestClient):
    (cluster,) = client.get("/clusters").json()
    assert cluster == client.get("/clusters/local").json()
    assert (cluster["name"], cluster["max_world_size"]) == ("local", 4)


def test_health_and_readiness(empty_engine: Engine):
    app = make_app(empty_engine)
    with TestClient(app, base_url=BASE) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert "paceline db upgrade" in problem(client.get("/readyz"), 503)["detail"]


def test_readiness_after_the_migration(client: TestClient):
    assert client.get("/readyz").json() == {"status": "ready"}


def test_a_message_is_not_sent_when_the_transaction_fails(sessions: Sessions):
    outbox = Outbox(sessions)

    def fail() -> None:
        with transaction(sessions, outbox) as session:
            run = factories.run(session)
            send_after_commit(session, "paceline.plan_run", run.id)
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError):
        fail()
    assert outbox.messages == []
    with sessions() as session:
        assert not runs_db.newest(session)


def test_messages_leave_in_order_and_once(sessions: Sessions):
    outbox = Outbox(sessions)
    with transaction(sessions, outbox) as session:
        first, second = factories.run(session), factories.run(session)
        assert outbox.messages == []
    assert [message.ids for message in outbox.messages] == [(str(first.id),), (str(second.id),)]


def test_a_broker_that_is_down_does_not_undo_an_accepted_run(client: TestClient, outbox: Outbox):
    outbox.error = ConnectionError("no broker")
    response = client.post("/runs", json=BODY)
    assert response.status_code == 202
    assert client.get(response.headers["location"]).status_code == 200


@on_sqlite
def test_the_schema_names_every_operation(client: TestClient):
    paths = client.get("/openapi.json").json()["paths"]
    operations = {o["operationId"] for path in paths.values() for o in path.values()}
    assert operations >= {"create_run", "list_runs", "get_run", "cancel_run", "create_project"}
