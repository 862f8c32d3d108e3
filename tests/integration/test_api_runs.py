"""/runs: what is accepted, and which field is wrong where it is not."""

from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.db import runs as runs_db
from service.db.session import Message, transaction
from service.domain import Failure, FailureReason, Status
from tests.api import BODY, Outbox, pointers, problem
from tests.conftest import on_sqlite


def test_a_run_is_accepted_and_can_be_followed(client: TestClient, outbox: Outbox):
    response = client.post("/runs", json=BODY)
    assert response.status_code == 202
    run = response.json()
    assert response.headers["location"] == f"/runs/{run['id']}"
    assert (run["status"], run["verdict"], run["intent"]) == ("queued", None, "gate")
    assert run["baseline"]["requested"] == "main"
    assert run["candidate"]["requested"] == "faster"
    assert outbox.messages == [Message("paceline.plan_run", (run["id"],))]

    detail = client.get(response.headers["location"]).json()
    assert detail["pairs"] == detail["trials"] == detail["comparisons"] == []
    assert detail["headline"] == "The run waits for a worker."


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


@pytest.mark.parametrize("change", [{"project": "nowhere"}, {"cluster": "moon"}])
def test_what_does_not_exist_is_named(client: TestClient, change: dict[str, str]):
    (name,) = change.values()
    body = problem(client.post("/runs", json={**BODY, **change}), 404)
    assert f"'{name}'" in body["detail"]


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


def test_a_broker_that_is_down_does_not_undo_an_accepted_run(client: TestClient, outbox: Outbox):
    outbox.error = ConnectionError("no broker")
    response = client.post("/runs", json=BODY)
    assert response.status_code == 202
    assert client.get(response.headers["location"]).status_code == 200


def test_a_run_tells_what_was_asked_for_and_by_whom(client: TestClient):
    asked = {"suite": None, "cases": ["a", "b"], "max_pairs": 8, "budget_device_hours": 0.5}
    response = client.post("/runs", json=BODY | asked)
    detail = client.get(response.headers["location"]).json()
    assert {name: detail[name] for name in asked} == asked
    assert detail["requested_by"] == "local"
