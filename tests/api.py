"""The API without a broker, for tests: the application, and what its refusals look like."""

from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI
from sqlalchemy import Engine

from service.api import events, health, registry, runs, schedules, stack, tokens
from service.api.access import Access
from service.api.monitoring import Monitor
from service.db import runs as runs_db
from service.db.session import Message, Sessions, make_sessions

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
    stack.install(app, Monitor(engine, app.state.sessions), is_standalone=True)
    app.state.stopping.set()  # streams end at once: the test client hears them whole
    for resource in (runs, events, schedules, registry, tokens, health):
        app.include_router(resource.router)
    return app


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of a response that must have that status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def pointers(response: httpx.Response) -> list[str]:
    return [error["pointer"] for error in problem(response, 422)["errors"]]
