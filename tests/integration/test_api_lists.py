"""Lists: in parts that hold each item once, by every filter, newest first."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from fastapi import FastAPI
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from service.db import models, paging
from service.db import runs as runs_db
from service.db.paging import Cursor
from service.db.session import transaction
from service.domain import Intent, SideSpec, Status, Verdict
from service.errors import Refused
from service.usecases import runs
from tests import factories
from tests.api import BODY, pointers
from tests.conftest import on_sqlite

HOUR = timedelta(hours=1)


@pytest.fixture
def session(app: FastAPI) -> Iterator[Session]:
    with app.state.sessions() as made:
        yield made


def ids(answer: Any) -> list[str]:
    return [item["id"] for item in answer["items"]]


def walk(client: TestClient, url: str) -> list[list[Any]]:
    """Items of all parts, by following the link that each names."""
    parts = []
    while True:
        response = client.get(url)
        answer = response.json()
        parts.append(answer["items"])
        if answer["next_cursor"] is None:
            assert "link" not in response.headers
            return parts
        url = response.links["next"]["url"]
        assert f"cursor={answer['next_cursor']}" in url


def test_parts_hold_each_run_once_newest_first(client: TestClient):
    made = [client.post("/runs", json=BODY).json()["id"] for _ in range(5)]
    parts = walk(client, "/runs?limit=2&status=queued")
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [item["id"] for part in parts for item in part] == made[::-1]


def test_the_last_part_may_be_full(client: TestClient):
    for _ in range(4):
        client.post("/runs", json=BODY)
    assert [len(part) for part in walk(client, "/runs?limit=2")] == [2, 2]


def test_runs_made_in_the_same_instant_are_parted_too(client: TestClient, app: FastAPI):
    made = {client.post("/runs", json=BODY).json()["id"] for _ in range(5)}
    with transaction(app.state.sessions, app.state.send) as session:
        for run_id in made:
            runs_db.lock(session, UUID(run_id)).created_at = factories.NOON
    found = [item["id"] for part in walk(client, "/runs?limit=2") for item in part]
    assert len(found) == 5
    assert set(found) == made


def test_a_run_that_is_added_meanwhile_moves_nothing(client: TestClient):
    made = [client.post("/runs", json=BODY).json()["id"] for _ in range(3)]
    first = client.get("/runs?limit=2").json()
    client.post("/runs", json=BODY)
    second = client.get("/runs", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert ids(first) + ids(second) == made[::-1]


def test_a_list_leads_back_as_it_led_on(session: Session):
    made = [factories.run(session) for _ in range(5)]
    for run in made:  # ties are told apart by the id on the way back, too
        run.created_at = factories.NOON
    session.flush()
    first = runs_db.newest(session, limit=2)
    second = runs_db.newest(session, limit=2, cursor=first.next)
    third = runs_db.newest(session, limit=2, cursor=second.next)
    assert (first.previous, third.next) == (None, None)
    assert runs_db.newest(session, limit=2, cursor=third.previous) == second
    back = runs_db.newest(session, limit=2, cursor=second.previous)
    assert (back.items, back.previous) == (first.items, None)
    assert runs_db.newest(session, limit=2, cursor=back.next) == second


@on_sqlite
def test_a_cursor_of_another_list_is_named(client: TestClient):
    of_tokens = paging.encode(Cursor(created_at=factories.NOON, id="q7rk2m9x4tpa"))
    assert pointers(client.get("/runs", params={"cursor": of_tokens})) == ["/cursor"]


def test_projects_and_clusters_are_lists_too(client: TestClient):
    for name in ("one", "two"):
        client.post("/projects", json={"name": name, "source": f"https://h/{name}"})
    found = [item["name"] for part in walk(client, "/projects?limit=1") for item in part]
    assert found == ["two", "one", "tinylm"]
    assert [[item["name"] for item in part] for part in walk(client, "/clusters")] == [["local"]]


CURSOR = Cursor(created_at=factories.NOON, id=str(UUID(int=7)))


@pytest.mark.parametrize("cursor", [CURSOR, Cursor(**{**vars(CURSOR), "is_newer": True})])
def test_a_cursor_survives_its_text(cursor: Cursor):
    text = paging.encode(cursor)
    assert paging.decode(text) == cursor
    assert quote(text, safe="") == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "ä", "=", paging.encode(CURSOR)[:-1], paging.encode(CURSOR) + "A", str(uuid4())],
)
def test_another_text_is_no_cursor(text: str):
    with pytest.raises(Refused):
        paging.decode(text)


@on_sqlite
def test_a_cursor_that_is_none_is_named(client: TestClient):
    # The year 1 in a zone in which it has not begun; padded; cut off; not of ours.
    early = "PjAwMDEtMDEtMDFUMDA6MDA6MDArMTQ6MDAvMDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDA3"
    for text in (early, paging.encode(CURSOR) + "=", paging.encode(CURSOR)[2:], "before"):
        for path in ("/runs", "/projects", "/clusters", "/tokens"):
            assert pointers(client.get(path, params={"cursor": text})) == ["/cursor"]


@on_sqlite
@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("before=x", "/before"),
        ("limit=201", "/limit"),
        ("status=done", "/status/0"),
        ("status=queued&status=done", "/status/1"),
        ("verdict=pass", "/verdict/0"),
        ("intent=x", "/intent"),
        ("revision=abc", "/revision"),
        ("revision=ABCD", "/revision"),
        ("revision=main", "/revision"),
        ("since=2026-05-04", "/since"),
        ("since=2026-05-04T12:00", "/since"),
        ("until=0001-01-01T00:00%2B14:00", "/until"),
        ("project=%00", "/project"),
    ],
)
def test_a_wrong_filter_is_refused_by_name(client: TestClient, query: str, pointer: str):
    assert pointers(client.get(f"/runs?{query}")) == [pointer]


def store(session: Session) -> dict[str, str]:
    """Ids of runs that differ in what a list may be filtered by, by a name for each."""
    factories.project(session, "other")
    elsewhere = models.Cluster(
        name="elsewhere",
        launcher="local",
        max_world_size=2,
        devices_per_node=0,
        arrangement="lockstep",
    )
    session.add(elsewhere)
    session.flush()
    made = {
        "plain": factories.run(session),
        "foreign": factories.run(session, project="other"),
        "elsewhere": factories.run(session, cluster="elsewhere"),
        "screen": factories.run(session, intent=Intent.SCREEN),
        "planned": factories.run(session, candidate=SideSpec(revision="faster")),
        "finished": factories.run(session),
        "failed": factories.run(session),
    }
    for hours, run in enumerate(made.values()):
        run.created_at = factories.NOON + hours * HOUR
    runs.plan(session, made["planned"].id, factories.plan())
    made["finished"].status, made["finished"].verdict = Status.FINISHED, Verdict.REGRESSION
    made["failed"].status = Status.FAILED
    return {name: str(run.id) for name, run in made.items()}


def test_filters(client: TestClient, app: FastAPI):
    with transaction(app.state.sessions, factories.unsent) as session:
        names = {ident: name for name, ident in store(session).items()}

    def found(query: str) -> set[str]:
        return {names[ident] for ident in ids(client.get(f"/runs?{query}").json())}

    everything = set(names.values())
    assert found("") == everything
    assert found("project=other") == {"foreign"}
    assert found("project=unheard-of") == set()
    assert found("cluster=elsewhere") == {"elsewhere"}
    assert found("cluster=unheard-of") == set()
    assert found("intent=screen") == {"screen"}
    assert found("status=failed") == {"failed"}
    assert found("status=failed&status=finished") == {"failed", "finished"}
    assert found("verdict=regression") == {"finished"}
    assert found("verdict=broken&verdict=regression") == {"finished"}
    assert found("verdict=broken") == set()
    assert found("revision=aaaa") == found(f"revision={'b' * 40}") == {"planned"}
    assert found("revision=aaab") == set()
    assert found("since=2026-05-04T17:00Z") == {"finished", "failed"}
    assert found("since=2026-05-04T19:00%2B02:00") == {"finished", "failed"}
    assert found("until=2026-05-04T13:00Z") == {"plain"}
    assert found("since=2026-05-04T13:00Z&until=2026-05-04T14:00Z") == {"foreign"}
    assert found("status=queued&intent=gate&project=tinylm") == {"plain", "elsewhere", "planned"}
    assert found("project=&status=&verdict=&intent=&revision=&since=&cursor=") == everything
