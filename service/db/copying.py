"""A consistent copy of a whole database, made while the service writes, and the way back.

SQLite is copied by its backup API, in both directions: as one transaction on either side, so a
reader sees the old content or the new one. PostgreSQL is copied by its own programs.
"""

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, func, inspect, select, table

from service.db import migration, postgres_programs
from service.db.session import make_engine
from service.errors import Conflict, Refused

_PATIENCE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a database holds: the revision of its schema, and how many rows each table has."""

    schema_revision: str | None
    num_rows: Mapping[str, int]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to lose; a schema alone is nothing."""
        return not any(self.num_rows.values())


def contents(engine: Engine) -> Contents:
    """What the database holds now."""
    with engine.connect() as connection:
        return _contents(connection)


def copy_out(engine: Engine, file: Path) -> Contents:
    """Copy the database into a new file; returns what the copy holds."""
    if engine.dialect.name == "postgresql":
        with postgres_programs.snapshot(engine) as (connection, name):
            postgres_programs.dump(engine, file, snapshot=name)
            return _contents(connection)
    _copy_sqlite(_file(engine), file)
    copy = make_engine(f"sqlite:///{file}")
    try:
        return contents(copy)
    finally:
        copy.dispose()


def copy_in(engine: Engine, file: Path) -> None:
    """Replace the database's content by a copy. What fails leaves the content as it was."""
    if engine.dialect.name == "postgresql":
        postgres_programs.load(engine, file)
        return
    target = _file(engine)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _copy_sqlite(file, target)
    except sqlite3.OperationalError as error:
        detail = f"{target} cannot be written ({error}); stop the service and try again."
        raise Conflict(detail) from error
    except sqlite3.DatabaseError as error:
        detail = f"{target} is no usable SQLite database ({error}); move it away and try again."
        raise Refused("database_url", detail) from error


def _contents(connection: Connection) -> Contents:
    names = sorted(set(inspect(connection).get_table_names()) - {"alembic_version"})
    rows = {
        name: connection.scalars(select(func.count()).select_from(table(name))).one()
        for name in names
    }
    return Contents(schema_revision=migration.current(connection), num_rows=rows)


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy in one step. Raises sqlite3.OperationalError where the target stays locked."""
    limit = time.monotonic() + _PATIENCE_S

    def give_up(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > limit:
            raise sqlite3.OperationalError("it is in use")

    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new, progress=give_up)


def _file(engine: Engine) -> Path:
    assert engine.url.database is not None
    return Path(engine.url.database)
