"""The schema's version: bring a database to the head, or say what it lacks."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.db.postgres_programs import cut_off
from service.errors import Conflict

_FOLDER = Path(__file__).parents[2] / "migrations"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Run the migrations up to `revision`. A newer version's schema stays as it is.

    Raises Conflict where a restore was cut off.
    """
    with engine.connect() as connection:
        detail, is_done = cut_off(connection), is_newer(connection)
    if detail is not None:
        raise Conflict(detail)
    if not is_done:
        _run(engine, command.upgrade, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Run the migrations back to `revision`; `base` empties the schema."""
    _run(engine, command.downgrade, revision)


def head() -> str:
    """Revision of the schema that this version needs."""
    found = _scripts().get_current_head()
    assert found is not None
    return found


def current(connection: Connection) -> str | None:
    """Revision of a database's schema; None where it has none."""
    return MigrationContext.configure(connection).get_current_revision()


def is_known(revision: str) -> bool:
    """Whether this version can upgrade from a revision; a newer version's is not known."""
    return revision in {script.revision for script in _scripts().walk_revisions()}


def is_newer(connection: Connection) -> bool:
    """Whether a later version upgraded the schema; this one can go on using it (ADR 0006)."""
    found = current(connection)
    return found is not None and not is_known(found)


def pending(engine: Engine) -> str | None:
    """Why the database cannot be used yet; None where it is ready."""
    try:
        with engine.connect() as connection:
            detail, found = cut_off(connection), current(connection)
    except SQLAlchemyError as error:
        return f"The database does not answer: {type(error).__name__}."
    if detail is None and found != head() and (found is None or is_known(found)):
        return f"The schema is at {found}, this version needs {head()}: run `paceline db upgrade`."
    return detail


def _run(engine: Engine, direction: Callable[[Config, str], None], revision: str) -> None:
    config = _config()
    with engine.connect() as connection, _unchecked_references(connection):
        config.attributes["connection"] = connection
        direction(config, revision)


@contextmanager
def _unchecked_references(connection: Connection) -> Iterator[None]:
    """SQLite alters a table by making it anew, which others refer to meanwhile.

    The switch has no effect inside a transaction, so it is set on the driver, before one begins.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.execute("pragma foreign_keys=off")
    try:
        yield
        broken = driver.execute("pragma foreign_key_check").fetchall()
        assert not broken, f"the migration left rows that refer to nothing: {broken[:3]}"
    finally:
        driver.execute("pragma foreign_keys=on")


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    folder = str(_FOLDER).replace("%", "%%")  # alembic would interpolate it
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    return config
