"""The API on a database of either kind, with a project and the local cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from service.db import models
from service.db.session import Sessions, transaction
from tests import factories
from tests.api import BASE, Outbox, make_app
from tests.conftest import postgres_database
from tests.fleet import Fleet


@pytest.fixture
def app(engine: Engine) -> FastAPI:
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


@pytest.fixture
def session(sessions: Sessions) -> Iterator[Session]:
    """A transaction."""
    with sessions() as made, made.begin():
        yield made


@pytest.fixture
def job(session: Session) -> models.Job:
    """The job of a run that has been planned."""
    return factories.job(session)


@pytest.fixture
def fleet(postgres_url: str, migrated_postgres: str, redis_program: Path) -> Iterator[Fleet]:
    """Production mode on a database of its own; a test starts the processes."""
    with (
        postgres_database(postgres_url, migrated_postgres) as engine,
        Fleet(engine.url.render_as_string(hide_password=False), redis_program) as made,
    ):
        yield made
