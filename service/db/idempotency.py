"""Queries on idempotency keys and the answers they stand for."""

import hashlib
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.db import models
from service.db.leases import database_now
from service.errors import Busy

_LOCK_WAIT_S = 2


def hold(session: Session, principal: str, key: str) -> None:
    """Keep other requests with this key out until the transaction ends. Raises Busy.

    On SQLite the transaction does so already: there is one at a time.
    """
    if session.get_bind().dialect.name != "postgresql":
        return
    digest = hashlib.sha256(f"{principal}\n{key}".encode()).digest()
    number = int.from_bytes(digest[:8], signed=True)
    session.execute(select(func.set_config("lock_timeout", f"{_LOCK_WAIT_S}s", True)))
    try:
        session.execute(select(func.pg_advisory_xact_lock(number)))
    except OperationalError as error:
        raise Busy("A request with this Idempotency-Key is still being answered.") from error
    session.execute(select(func.set_config("lock_timeout", "0", True)))


def find(session: Session, principal: str, key: str) -> models.IdempotencyKey | None:
    """The key with its answer, where there was one."""
    kind = models.IdempotencyKey
    return session.scalar(select(kind).where(kind.principal == principal, kind.key == key))


def forget(session: Session, *, older_than_s: float) -> None:
    """Remove the answers given longer ago."""
    limit = database_now(session) - timedelta(seconds=older_than_s)
    session.execute(
        delete(models.IdempotencyKey).where(models.IdempotencyKey.created_at < limit),
        execution_options={"synchronize_session": False},
    )
