"""Alembic's entry: runs on the connection that service.db.migration gives it."""

from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from service.db import models  # noqa: F401 (fills the metadata)
from service.db.base import AwareDateTime, Base, SampleBlob


def _render(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    """Plain column types in migrations: they must not change when our classes do."""
    if kind != "type":
        return False
    if isinstance(item, AwareDateTime):
        return "sa.DateTime(timezone=True)"
    if isinstance(item, SampleBlob):
        return "sa.LargeBinary()"
    if isinstance(item, sa.JSON):
        return "sa.JSON().with_variant(postgresql.JSONB(), 'postgresql')"
    if isinstance(item, sa.Enum):
        return "sa.String(length=32)"
    return False


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    compare_type=True,
    render_item=_render,
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
