"""pg_dump and pg_restore: found on PATH, not older than the server, no secret in argv."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, func, inspect, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateSchema, DropSchema

from service.errors import Conflict, PacelineError, Refused

_ASIDE = "paceline_before_restore"
_LOCK_TIMEOUT = "10s"
_REMEDY = "Install the client programs of the server's version (Debian: postgresql-client-{major})"


@contextmanager
def snapshot(engine: Engine) -> Iterator[tuple[Connection, str]]:
    """A connection that sees one moment, and the name under which pg_dump sees the same one."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        # It waits as long as pg_dump works, which may be longer than our connections may idle.
        connection.execute(text("set local idle_in_transaction_session_timeout = 0"))
        yield connection, connection.scalars(select(func.pg_export_snapshot())).one()


def dump(engine: Engine, file: Path, *, snapshot: str) -> None:
    """Write the database into a file in pg_dump's custom format."""
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    _run(engine, "pg_dump", [*options, f"--file={file}"])


def load(engine: Engine, file: Path) -> None:
    """Replace the tables by those of a file.

    The old tables wait in a schema of their own: pg_restore works in one transaction, and where it
    fails they come back. Raises Conflict where the database is in use.
    """
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _program("pg_restore", _major(engine))
    _set_aside(engine)
    try:
        _run(engine, "pg_restore", [*options, str(file)])
    except BaseException:
        with engine.begin() as connection:
            _move_tables(connection, source=_ASIDE, target="public")
            connection.execute(DropSchema(_ASIDE))
        raise
    with engine.begin() as connection:
        connection.execute(DropSchema(_ASIDE, cascade=True))


def cut_off(connection: Connection) -> str | None:
    """What to do where a restore was killed half-way; None where there was none.

    Without this the database would look like an empty one, ready to be filled anew.
    """
    if connection.dialect.name != "postgresql" or not inspect(connection).has_schema(_ASIDE):
        return None
    return (
        f"A restore goes on, or was cut off: the schema {_ASIDE} holds the tables as they were. "
        "docs/operations.md says how to put them back."
    )


def _set_aside(engine: Engine) -> None:
    try:
        with engine.begin() as connection:
            detail = cut_off(connection)
            if detail is not None:
                raise Conflict(detail)
            connection.execute(text(f"set local lock_timeout = '{_LOCK_TIMEOUT}'"))
            connection.execute(CreateSchema(_ASIDE))
            _move_tables(connection, source="public", target=_ASIDE)
    except OperationalError as error:
        detail = "The database is in use; stop API, beat and workers, and try again."
        raise Conflict(detail) from error


def _move_tables(connection: Connection, *, source: str, target: str) -> None:
    """Move all tables; their indexes, constraints and sequences go with them."""
    for name in inspect(connection).get_table_names(schema=source):
        connection.execute(text(f'alter table {source}."{name}" set schema {target}'))


def _run(engine: Engine, name: str, options: Sequence[str]) -> None:
    """Run a program on the database. Raises PacelineError with its last words."""
    program = _program(name, _major(engine))
    names = engine.url.translate_connect_args(username="user", database="dbname")
    parameters = {**names, **engine.url.query}
    password = parameters.pop("password", None)
    with tempfile.NamedTemporaryFile("w", prefix="paceline-") as file:  # readable by us alone
        if password:
            file.write("*:*:*:*:{}\n".format(re.sub(r"([\\:])", r"\\\1", password)))
            file.flush()
            parameters["passfile"] = file.name
        command = [str(program), f"--dbname={make_conninfo(**parameters)}", *options]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    if result.returncode != 0:
        words = result.stderr.strip() or "it said nothing"
        raise PacelineError(f"{name} failed with {result.returncode}: {words}")


def _program(name: str, server_major: int) -> Path:
    """Path of a client program that is new enough. Raises Refused."""
    remedy = _REMEDY.format(major=server_major)
    found = shutil.which(name)
    if found is None:
        raise Refused("PATH", f"{name} is not on PATH. {remedy}.")
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"\) (\d+)", answer.stdout)
    if version is None or int(version[1]) < server_major:
        detail = (
            f"{answer.stdout.strip()} at {found} is older than the server, PostgreSQL "
            f"{server_major}. {remedy}, or put them first on PATH."
        )
        raise Refused("PATH", detail)
    return Path(found)


def _major(engine: Engine) -> int:
    """The server's major version."""
    with engine.connect() as connection:
        return (
            int(connection.scalars(select(func.current_setting("server_version_num"))).one())
            // 10000
        )
