"""Engines and sessions. A transaction ends at the edge; its messages leave after the commit."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError
from sqlalchemy.orm import Session, sessionmaker

logger = logging.getLogger(__name__)

_OUTBOX = "outbox"

# The database does not answer, or has no room: nothing is wrong with what it was asked.
DATABASE_FAILURES = (OperationalError, InterfaceError, TimeoutError)


# A server takes some 100 connections: a few processes of 20 each, of which most stay idle.
_POOL: dict[str, Any] = {
    "pool_size": 10,
    "max_overflow": 10,
    "pool_timeout": 30,
    "pool_recycle": 1800,
    "pool_pre_ping": True,
}
# A server that is gone is noticed within a minute. A process that was stopped in the middle of a
# transaction holds its locks no longer than that.
_POSTGRESQL: dict[str, Any] = {
    "application_name": "paceline",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "options": "-c timezone=UTC -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s",
}


@dataclass(frozen=True)
class Message:
    """A hint for a worker: a Celery task by name, and ids."""

    task: str
    ids: tuple[str, ...]


Send = Callable[[Message], None]
Sessions = sessionmaker[Session]


def make_engine(url: str) -> Engine:
    """Engine for SQLite or PostgreSQL.

    On SQLite every transaction takes the write lock at once (BEGIN IMMEDIATE): a transaction that
    reads first and writes later could otherwise fail half-way with "database is locked".
    """
    if not url.startswith("sqlite"):
        return create_engine(url, connect_args=_POSTGRESQL, hide_parameters=True, **_POOL)
    engine = create_engine(url, connect_args={"timeout": 30}, hide_parameters=True)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def make_sessions(engine: Engine) -> Sessions:
    """Factory of sessions; their objects stay readable after the commit."""
    return sessionmaker(engine, expire_on_commit=False)


@contextmanager
def transaction(sessions: Sessions, send: Send) -> Iterator[Session]:
    """A session that is committed at the end; then its messages are sent.

    A message that is lost, or that the broker does not take, costs time, not work: the reconciler
    sends it again. So it fails nothing here, where the work is committed.
    """
    with sessions() as session:
        with session.begin():
            yield session
        for message in session.info.pop(_OUTBOX, []):
            try:
                send(message)
            except Exception:
                logger.exception("%s%r was not sent", message.task, message.ids)


def send_after_commit(session: Session, task: str, *ids: object) -> None:
    """Have a task started once what this session wrote can be read."""
    outbox: list[Message] = session.info.setdefault(_OUTBOX, [])
    outbox.append(Message(task, tuple(map(str, ids))))


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in ("journal_mode=wal", "synchronous=normal", "foreign_keys=on"):
        connection.execute(f"pragma {pragma}")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
