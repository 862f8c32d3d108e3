"""Queries on tokens."""

from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.db import models
from service.db.paging import Cursor, Page, page
from service.errors import Conflict

_USE_IS_NOTED_EVERY = timedelta(minutes=1)


def token(session: Session, ident: str) -> models.Token | None:
    """Token of that public id."""
    return session.get(models.Token, ident)


def newest_tokens(session: Session, *, cursor: Cursor | None, limit: int) -> Page[models.Token]:
    """A page of tokens."""
    return page(session, select(models.Token), cursor=cursor, limit=limit)


def add(session: Session, row: models.Token) -> None:
    """Store a token. Raises Conflict where its name was given before, by whoever was faster."""
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError as error:
        detail = f"There is a token {row.name!r} already, or was: choose another name."
        raise Conflict(detail) from error


def note_use(session: Session, ident: str, now: datetime) -> None:
    """Remember that a token was used, at most once a minute."""
    used = models.Token.last_used_at
    is_due = or_(used.is_(None), used <= now - _USE_IS_NOTED_EVERY)
    query = update(models.Token).where(models.Token.id == ident, is_due).values(last_used_at=now)
    session.execute(query, execution_options={"synchronize_session": False})
