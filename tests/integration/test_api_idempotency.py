"""Idempotency-Key: however often and however concurrently a request comes, it is done once."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from starlette.testclient import TestClient

from service.api import access, idempotency
from service.db import idempotency as keys
from service.db import models
from service.db.session import transaction
from service.domain import Principal, Scope
from service.usecases import runs
from tests import factories
from tests.api import BODY, Outbox, pointers, problem
from tests.conftest import on_sqlite

KEY = '"8e03978e-40d5-43e8-bc93-6894a57f9324"'


def post(client: TestClient, key: str = KEY, **change: Any) -> Any:
    return client.post("/runs", json={**BODY, **change}, headers={"idempotency-key": key})


def num_runs(client: TestClient) -> int:
    return len(client.get("/runs").json()["items"])


def test_a_repeated_request_gets_the_first_answer(client: TestClient, outbox: Outbox):
    first = post(client)
    client.post(f"/runs/{first.json()['id']}/cancel")
    again = post(client, key=KEY.strip('"'))  # the same key, with or without its quotes
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert len(outbox.messages) == num_runs(client) == 1


def test_what_differs_only_in_writing_is_the_same_request(client: TestClient):
    first = post(client)
    side = {"arguments": [], "revision": BODY["candidate"]}
    again = post(client, candidate=side, cluster="local")
    assert again.json()["id"] == first.json()["id"]


def test_another_request_needs_another_key(client: TestClient, tmp_path: Path):
    post(client)
    assert pointers(post(client, candidate="other")) == ["/Idempotency-Key"]
    body = {"name": "mine", "source": str(tmp_path)}
    other = client.post("/projects", json=body, headers={"idempotency-key": KEY})
    assert pointers(other) == ["/Idempotency-Key"]
    assert num_runs(client) == 1
    assert post(client, '"another"', candidate="other").status_code == 202


def test_without_a_key_every_request_is_new(client: TestClient):
    client.post("/runs", json=BODY)
    client.post("/runs", json=BODY)
    assert num_runs(client) == 2


def test_a_refused_request_may_be_tried_again(client: TestClient, app: FastAPI):
    problem(post(client, project="late"), 404)
    with transaction(app.state.sessions, app.state.send) as session:
        factories.project(session, "late")
    response = post(client, project="late")
    assert response.status_code == 202
    assert "idempotency-replayed" not in response.headers


def test_projects_have_keys_too(client: TestClient, tmp_path: Path):
    body, headers = {"name": "mine", "source": str(tmp_path)}, {"idempotency-key": KEY}
    first, again = (client.post("/projects", json=body, headers=headers) for _ in range(2))
    assert first.content == again.content
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == "/projects/mine"


def test_a_key_belongs_to_who_sent_it(client: TestClient, app: FastAPI):
    first = post(client).json()
    ada = Principal(name="ada", scopes=frozenset(Scope))
    app.dependency_overrides[access.get_principal] = lambda: ada
    other = post(client)
    assert "idempotency-replayed" not in other.headers
    assert other.json()["id"] != first["id"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('"a key"', "a key"),
        (r'"a \"quoted\" \\ one"', r'a "quoted" \ one'),
        (f'"{"x" * 255}"', "x" * 255),
        ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ("ci:main/17", "ci:main/17"),
    ],
)
def test_keys(text: str, key: str):
    assert idempotency.parse(text) == key


@pytest.mark.parametrize(
    "text",
    ["", '""', '"', '"a', 'a"', "a b", r'"\a"', '"ä"', '"a\tb"', "x" * 256, '"a";b=1', "a,b"],
)
def test_what_is_no_key(text: str):
    with pytest.raises(HTTPException) as refusal:
        idempotency.parse(text)
    assert refusal.value.status_code == 400


@on_sqlite
def test_a_key_that_is_none_is_a_bad_request(client: TestClient):
    assert "UUID" in problem(post(client, ""), 400)["detail"]
    twice = client.post(
        "/runs", json=BODY, headers=[("idempotency-key", "a"), ("idempotency-key", "b")]
    )
    assert "not 2" in problem(twice, 400)["detail"]
    assert num_runs(client) == 0


def test_many_that_come_at_once_make_one_run(client: TestClient, outbox: Outbox):
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda number: post(client, f'"{number % 3}"'), range(24)))
    assert {response.status_code for response in responses} == {202}
    assert len({response.json()["id"] for response in responses}) == 3
    replayed = Counter(response.headers.get("idempotency-replayed") for response in responses)
    assert replayed == {"true": 21, None: 3}
    assert len(outbox.messages) == num_runs(client) == 3


@contextmanager
def being_answered(app: FastAPI) -> Iterator[None]:
    """Another process holds the key for the time being."""
    with app.state.sessions() as session, session.begin():
        keys.hold(session, "local", KEY.strip('"'))
        yield


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_request_does_not_wait_long_for_its_twin(client: TestClient, app: FastAPI):
    with being_answered(app):
        response = post(client)
        assert "still being answered" in problem(response, 409)["detail"]
        assert int(response.headers["retry-after"]) > 0
        assert post(client, '"another"').status_code == 202
    assert post(client).status_code == 202
    assert num_runs(client) == 2


def test_the_reconciler_forgets_old_keys(client: TestClient, app: FastAPI):
    post(client)
    with transaction(app.state.sessions, app.state.send) as session:
        (row,) = session.query(models.IdempotencyKey).all()
        row.created_at -= timedelta(hours=23)
    for hours, replayed in ((24, "true"), (22, None)):
        with transaction(app.state.sessions, app.state.send) as session:
            runs.reconcile(session, grace_s=10, max_losses=3, idempotency_s=hours * 3600)
        assert post(client).headers.get("idempotency-replayed") == replayed
