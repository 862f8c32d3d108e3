"""A run is followed over HTTP as it moves on, by a server that streams."""

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from httpx_sse import connect_sse
from sqlalchemy.orm import Session

from service.api import events
from service.db import leases
from service.db import runs as runs_db
from service.db.session import transaction
from service.domain import Status
from service.usecases import recording, runs
from tests import factories
from tests.conftest import on_sqlite

LIMIT_S = 20.0


@dataclass(frozen=True)
class Event:
    id: str
    run: dict[str, Any]


class Service:
    """The API under a real server, with one run that is being measured."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        app.state.stopping.clear()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}
        )
        with self.session() as session:
            job = factories.job(session)
            self.job_id, self.run_id = job.id, job.run_id
            self.case_id = job.job_cases[0].case_id
            self.cluster_id = job.cluster_id
            runs_db.mark_started(session, job.run_id, leases.database_now(session))

    def __enter__(self) -> "Service":
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        self._listener.close()

    def stop(self) -> None:
        self.app.state.stopping.set()
        self._server.should_exit = True
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), "a stream keeps the server from ending"

    @contextmanager
    def session(self) -> Iterator[Session]:
        with transaction(self.app.state.sessions, factories.unsent) as session:
            yield session

    def record_pair(self, position: int) -> None:
        with self.session() as session:
            job = runs_db.job(session, self.job_id)
            environment = factories.environment(session, job)
            recording.record_pair(
                session, job, self.case_id, position, environment, factories.pair()
            )

    def path(self, run_id: UUID | None = None) -> str:
        return f"{self.url}/runs/{run_id or self.run_id}/events"


class Follower:
    """Hears a stream in a thread of its own."""

    def __init__(self, service: Service, seen: str | None = None) -> None:
        self._heard: queue.Queue[Event | None] = queue.Queue()
        headers = {"Last-Event-ID": seen} if seen else {}
        self._arguments = (service.path(), headers)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        path, headers = self._arguments
        with (
            httpx.Client(timeout=LIMIT_S) as client,
            connect_sse(client, "GET", path, headers=headers) as source,
        ):
            for event in source.iter_sse():
                assert event.event == "progress"
                self._heard.put(Event(id=event.id, run=event.json()))
        self._heard.put(None)

    def next(self) -> Event:
        event = self._heard.get(timeout=LIMIT_S)
        assert event is not None, "the stream ended"
        return event

    def hears_nothing(self) -> bool:
        time.sleep(2.5)  # longer than a look takes
        return self._heard.empty()

    def await_end(self) -> None:
        assert self._heard.get(timeout=LIMIT_S) is None


@pytest.fixture
def service(app: FastAPI) -> Iterator[Service]:
    with Service(app) as made:
        yield made


def test_a_run_is_followed_to_its_end(service: Service):
    follower = Follower(service)
    first = follower.next()
    assert first.run["status"] == "running"
    assert first.run["mark"] == first.id
    assert follower.hears_nothing()
    service.record_pair(0)
    second = follower.next()
    assert second.id != first.id
    with service.session() as session:
        runs.cancel(session, service.run_id)
        run = runs_db.run(session, service.run_id)
        run.status, run.finished_at = Status.CANCELLED, leases.database_now(session)
    last = follower.next()
    assert last.run["status"] == "cancelled"
    assert last.run["headline"] == "The run was cancelled. There is no verdict."
    follower.await_end()


@on_sqlite
def test_who_connects_again_hears_what_is_new(service: Service):
    seen = Follower(service).next().id
    again = Follower(service, seen)
    assert again.hears_nothing()
    service.record_pair(0)
    assert again.next().id != seen
    behind = Follower(service, seen)
    assert behind.next().id != seen, "what happened meanwhile is told at once"


@on_sqlite
def test_a_run_that_has_ended_is_told_once(service: Service):
    with service.session() as session:
        run = runs_db.run(session, service.run_id)
        run.status, run.finished_at = Status.FAILED, leases.database_now(session)
    follower = Follower(service)
    ended = follower.next()
    follower.await_end()
    again = Follower(service, ended.id)
    assert again.next().id == ended.id
    again.await_end()


@on_sqlite
def test_a_server_that_stops_ends_its_streams(service: Service):
    follower = Follower(service)
    follower.next()
    service.stop()
    follower.await_end()


@on_sqlite
def test_a_stream_does_not_last_for_ever(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_LONGEST_S", 0.5)
    follower = Follower(service)
    follower.next()
    follower.await_end()


@on_sqlite
def test_an_unknown_run_is_a_problem_not_a_stream(service: Service):
    answer = httpx.get(service.path(uuid4()))
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@on_sqlite
def test_head_does_not_wait_for_the_end(service: Service):
    answer = httpx.head(service.path(), timeout=LIMIT_S)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""


@on_sqlite
def test_a_stream_is_neither_kept_nor_compressed(service: Service):
    with httpx.stream("GET", service.path(), headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-encoding" not in answer.headers
        assert next(answer.iter_lines()) == "event: progress"
