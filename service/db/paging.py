"""Pages of a list, newest first, and the cursors that lead from one to the next."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import Session

from service.errors import Refused

Item = TypeVar("Item")
Other = TypeVar("Other")

_NOT_OURS = "This is no cursor of this list; take one from an answer, or leave it out to start."


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """A place in a list, next to the row of this time and id: older rows follow from here, or,
    `is_newer`, the newer ones that come before it.
    """

    created_at: datetime
    id: str
    is_newer: bool = False


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list. `next` leads to older items, `previous` to newer ones."""

    items: Sequence[Item]
    next: Cursor | None = None
    previous: Cursor | None = None

    def map(self, change: Callable[[Item], Other]) -> "Page[Other]":
        """The page with each item changed."""
        items = [change(item) for item in self.items]
        return Page(items=items, next=self.next, previous=self.previous)


def page(session: Session, query: Select[Item], *, cursor: Cursor | None, limit: int) -> Page[Item]:
    """At most `limit` rows of a query on one table, from a cursor or from the newest on.

    Raises Refused for a cursor of another list.
    """
    table: Any = query.column_descriptions[0]["entity"]
    is_newer = cursor is not None and cursor.is_newer
    if cursor is not None:
        try:
            ident = table.id.type.python_type(cursor.id)
        except ValueError as error:
            raise Refused("cursor", _NOT_OURS) from error
        place, mark = tuple_(table.created_at, table.id), tuple_(cursor.created_at, ident)
        query = query.where(place > mark if is_newer else place < mark)
    columns = (table.created_at, table.id)
    query = query.order_by(*(column.asc() if is_newer else column.desc() for column in columns))
    found: list[Any] = list(session.scalars(query.limit(limit + 1)))
    has_more, rows = len(found) > limit, found[:limit]
    if is_newer:
        rows.reverse()
    # What the cursor stands next to lies on the side we came from.
    has_next, has_previous = (True, has_more) if is_newer else (has_more, cursor is not None)
    return Page(
        items=rows,
        next=_beside(rows[-1], is_newer=False) if rows and has_next else None,
        previous=_beside(rows[0], is_newer=True) if rows and has_previous else None,
    )


def _beside(row: Any, *, is_newer: bool) -> Cursor:
    return Cursor(created_at=row.created_at, id=str(row.id), is_newer=is_newer)


def encode(cursor: Cursor) -> str:
    """The cursor as opaque text that may stand in a URL."""
    sign = "<" if cursor.is_newer else ">"
    text = f"{sign}{cursor.created_at.isoformat()}/{cursor.id}."  # its end tells what was cut off
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str) -> Cursor:
    """The cursor that `encode` made this text of. Raises Refused for any other text."""
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        moment, _, ident = raw[1:].removesuffix(".").partition("/")
        created_at = datetime.fromisoformat(moment).astimezone(UTC)
        cursor = Cursor(created_at=created_at, id=ident, is_newer=raw[:1] == "<")
        is_ours = encode(cursor) == text
    except (ValueError, OverflowError):
        is_ours = False
    if not is_ours:
        raise Refused("cursor", _NOT_OURS)
    return cursor
