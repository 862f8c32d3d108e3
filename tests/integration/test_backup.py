"""Backup and restore on both databases: equal rows, equal blobs, equal artifacts; or no change."""

import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.db import copying, migration, postgres_programs
from service.db.session import make_engine, make_sessions
from service.errors import Conflict, PacelineError, Refused
from service.usecases import backup, recording
from tests import factories, postgres
from tests.conftest import KINDS, on_sqlite

on_postgres = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own client programs come first on PATH."""
    found = postgres.binaries()
    if found is not None:
        monkeypatch.setenv("PATH", str(found), prepend=os.pathsep)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An artifact store with two files."""
    folder = tmp_path / "artifacts"
    for name, content in {"runs/1/log.txt": b"hello", "runs/2/rank-0.jsonl": b"\0\xff"}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """A database with a measured job in it."""
    with make_sessions(engine)() as session, session.begin():
        record(session)
    return engine


def record(session: Session) -> None:
    job = factories.job(session)
    environment = factories.environment(session, job, driver="570")
    for position in range(3):
        case_id = job.job_cases[0].case_id
        recording.record_pair(session, job, case_id, position, environment, factories.pair())


def dumped(engine: Engine) -> dict[str, list[Any]]:
    """Every row of every table as the driver reads it, blobs included."""
    metadata = sa.MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        return {
            name: sorted(map(repr, connection.execute(sa.select(table))))
            for name, table in metadata.tables.items()
        }


def make(engine: Engine, file: Path, store: Path | None = None) -> backup.Manifest:
    url = f"file://{store or file.parent / 'none'}"
    return backup.back_up(engine, url, file, with_artifacts=store is not None)


def restore(
    engine: Engine, file: Path, store: Path | None = None, *, force: bool = False
) -> backup.Manifest:
    url = f"file://{store or file.parent / 'none'}"
    return backup.restore(engine, url, file, force=force)


def rewrite(file: Path, change: Callable[[str, bytes], bytes | None], **manifest: Any) -> Path:
    """A copy of an archive with parts changed or left out, and fields of its manifest replaced."""
    changed = file.with_name("changed.tar")
    with tarfile.open(file) as old, tarfile.open(changed, "w") as new:
        for member in old.getmembers():
            content = change(member.name, old.extractfile(member).read())  # type: ignore[union-attr]
            if content is None:
                continue
            if member.name == "manifest.json":
                content = json.dumps({**json.loads(content), **manifest}).encode()
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return changed


def unchanged(_name: str, content: bytes) -> bytes:
    return content


@pytest.mark.parametrize(
    ("engine", "empty_engine"), [(kind, kind) for kind in KINDS], ids=KINDS, indirect=True
)
def test_everything_comes_back_as_it_was(
    filled: Engine, empty_engine: Engine, store: Path, tmp_path: Path
):
    before = dumped(filled)
    made = make(filled, tmp_path / "all.tar", store)
    restored = restore(empty_engine, tmp_path / "all.tar", tmp_path / "new" / "store")
    assert dumped(empty_engine) == before
    assert before["measurements"], "there are blobs to compare"
    assert restored == made
    assert made.num_rows["pairs"] == 3
    assert made.num_rows == {
        name: len(rows) for name, rows in before.items() if name in made.num_rows
    }
    names = ["runs/1/log.txt", "runs/2/rank-0.jsonl"]
    for name in names:
        assert (tmp_path / "new" / "store" / name).read_bytes() == (store / name).read_bytes()


def test_an_archive_is_for_its_owner_only_and_nothing_else_is_left(filled: Engine, tmp_path: Path):
    folder = tmp_path / "backups"
    folder.mkdir()
    manifest = make(filled, folder / "a.tar")
    assert [path.name for path in folder.iterdir()] == ["a.tar"]
    assert (folder / "a.tar").stat().st_mode & 0o777 == 0o600
    assert not manifest.has_artifacts
    assert set(manifest.parts) == {"database"}


def test_the_copy_is_of_one_moment_while_the_service_writes(filled: Engine, tmp_path: Path):
    """Rows of a transaction that is open meanwhile are not in it, and it can go on."""
    with make_sessions(filled)() as session:
        factories.project(session, name="not-yet-committed")
        session.flush()
        manifest = make(filled, tmp_path / "a.tar")
        session.commit()
    assert manifest.num_rows["projects"] == 1
    assert copying.contents(filled).num_rows["projects"] == 2


def test_a_full_database_is_replaced_only_when_told(filled: Engine, tmp_path: Path):
    make(filled, tmp_path / "a.tar")
    before = dumped(filled)
    with make_sessions(filled)() as session, session.begin():
        factories.project(session, name="later")
    with pytest.raises(Refused, match="--force"):
        restore(filled, tmp_path / "a.tar")
    assert dumped(filled) != before
    restore(filled, tmp_path / "a.tar", force=True)
    assert dumped(filled) == before


def test_tables_of_a_newer_schema_do_not_stay(filled: Engine, tmp_path: Path):
    """The way back from an upgrade that went wrong."""
    make(filled, tmp_path / "a.tar")
    before = dumped(filled)
    with filled.begin() as connection:
        connection.execute(sa.text("create table newer (id integer primary key, run_id integer)"))
    restore(filled, tmp_path / "a.tar", force=True)
    assert dumped(filled) == before


def flipped(name: str, content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("change", "manifest", "words"),
    [
        (lambda n, c: flipped(n, c) if n == "database" else c, {}, "database in .* is damaged"),
        (lambda n, c: flipped(n, c) if n == "artifacts/runs/1/log.txt" else c, {}, "is damaged"),
        (lambda n, c: None if n == "artifacts/runs/1/log.txt" else c, {}, "no whole backup"),
        (lambda n, c: None if n == "manifest.json" else c, {}, "no whole backup"),
        (unchanged, {"format": 2}, "format"),
        (unchanged, {"parts": {"database": "", "artifacts/../../evil": ""}}, "no part of a backup"),
        (unchanged, {"parts": {"database": "", "/etc/passwd": ""}}, "no part of a backup"),
        (unchanged, {"parts": {}}, "the database is missing"),
        (unchanged, {"schema_revision": "9999", "version": "7.0"}, "Paceline 7.0 or newer"),
        (unchanged, {"database": "oracle"}, "oracle"),
    ],
)
def test_an_archive_that_is_wrong_changes_nothing(
    filled: Engine,
    store: Path,
    tmp_path: Path,
    change: Callable[[str, bytes], bytes | None],
    manifest: dict[str, Any],
    words: str,
):
    make(filled, tmp_path / "a.tar", store)
    before = dumped(filled)
    wrong = rewrite(tmp_path / "a.tar", change, **manifest)
    with pytest.raises(Refused, match=words):
        restore(filled, wrong, tmp_path / "new", force=True)
    assert dumped(filled) == before
    assert not (tmp_path / "new").exists()


@on_sqlite
def test_a_truncated_or_foreign_file_is_no_backup(filled: Engine, tmp_path: Path):
    make(filled, tmp_path / "a.tar")
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "half.tar").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.tar").write_text("not a tar file\n" * 100)
    for name in ("half.tar", "text.tar", "nowhere.tar"):
        with pytest.raises(Refused, match="backup"):
            restore(filled, tmp_path / name, force=True)


@on_sqlite
def test_a_backup_never_replaces_a_file(filled: Engine, tmp_path: Path):
    (tmp_path / "a.tar").write_text("precious")
    with pytest.raises(Refused, match="exists"):
        make(filled, tmp_path / "a.tar")
    with pytest.raises(Refused, match="no folder"):
        make(filled, tmp_path / "nowhere" / "a.tar")
    assert (tmp_path / "a.tar").read_text() == "precious"


def test_a_database_without_schema_has_nothing_to_keep(empty_engine: Engine, tmp_path: Path):
    with pytest.raises(Refused, match="nothing to keep"):
        make(empty_engine, tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()


@on_sqlite
def test_a_file_that_is_no_database_is_not_overwritten(filled: Engine, tmp_path: Path):
    make(filled, tmp_path / "a.tar")
    (tmp_path / "other.db").write_text("precious" * 1000)
    other = make_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises((Refused, sa.exc.DatabaseError)):
        restore(other, tmp_path / "a.tar", force=True)
    assert (tmp_path / "other.db").read_text() == "precious" * 1000


@on_sqlite
def test_sqlite_in_use_is_a_sentence_and_no_change(
    filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(copying, "_PATIENCE_S", 0.2)
    make(filled, tmp_path / "a.tar")
    before = dumped(filled)
    other = sqlite3.connect(str(filled.url.database), isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(Conflict, match="stop the service"):
        restore(filled, tmp_path / "a.tar", force=True)
    other.close()
    assert dumped(filled) == before


@on_postgres
def test_postgres_in_use_is_a_sentence_and_no_change(
    filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres_programs, "_LOCK_TIMEOUT", "200ms")
    make(filled, tmp_path / "a.tar")
    before = dumped(filled)
    with filled.connect() as reader:
        reader.execute(sa.text("select count(*) from runs"))
        with pytest.raises(Conflict, match="stop API"):
            restore(filled, tmp_path / "a.tar", force=True)
    assert dumped(filled) == before


@on_postgres
def test_what_pg_restore_cannot_read_leaves_the_old_tables(filled: Engine, tmp_path: Path):
    before = dumped(filled)
    (tmp_path / "dump").write_bytes(b"PGDMP broken")
    with pytest.raises(PacelineError, match="pg_restore failed"):
        postgres_programs.load(filled, tmp_path / "dump")
    assert dumped(filled) == before
    assert sa.inspect(filled).has_table("runs")


@on_postgres
def test_a_restore_that_was_cut_off_is_noticed(filled: Engine, tmp_path: Path):
    make(filled, tmp_path / "a.tar")
    with filled.begin() as connection:
        connection.execute(sa.text("create schema paceline_before_restore"))
    with pytest.raises(Conflict, match="cut off"):
        restore(filled, tmp_path / "a.tar", force=True)
    assert "cut off" in (migration.pending(filled) or "")
    with pytest.raises(Conflict, match="cut off"):
        migration.upgrade(filled)


@on_postgres
def test_a_snapshot_waits_for_pg_dump_however_long_that_takes(filled: Engine):
    with postgres_programs.snapshot(filled) as (connection, _name):
        query = sa.text("show idle_in_transaction_session_timeout")
        assert connection.scalars(query).one() == "0"
    with filled.connect() as connection:
        assert connection.scalars(query).one() == "1min"


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@on_postgres
@pytest.mark.parametrize("version", ["pg_dump (PostgreSQL) 9.6.24", "no version at all"])
def test_programs_older_than_the_server_are_refused(
    filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
):
    program(tmp_path, "pg_dump", f'echo "{version}"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Refused, match=r"older than the server.*postgresql-client-\d+"):
        make(filled, tmp_path / "a.tar")


@on_postgres
def test_missing_programs_are_named_with_the_remedy(
    filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"pg_dump is not on PATH.*postgresql-client-\d+"):
        make(filled, tmp_path / "a.tar")


@pytest.fixture
def with_password(filled: Engine) -> Iterator[Engine]:
    engine = make_engine(
        filled.url.set(password=r"pass:wo\rd").render_as_string(hide_password=False)
    )
    yield engine
    engine.dispose()


@on_postgres
def test_the_password_is_in_a_file_not_among_the_arguments(
    with_password: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = f"""
        if [ "$1" = --version ]; then echo "pg_dump (PostgreSQL) 99.1"; exit; fi
        echo "$@" > {tmp_path}/arguments
        env > {tmp_path}/environment
        file=$(echo "$1" | sed "s/.*passfile=\\([^ ]*\\).*/\\1/")
        stat -c %a "$file" > {tmp_path}/mode
        cat "$file" > {tmp_path}/passfile
        exit 1"""
    program(tmp_path, "pg_dump", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(PacelineError, match="pg_dump failed with 1"):
        make(with_password, tmp_path / "a.tar")
    for name in ("arguments", "environment"):
        assert r"pass:wo\rd" not in (tmp_path / name).read_text()
    assert (tmp_path / "passfile").read_text() == "*:*:*:*:pass\\:wo\\\\rd\n"
    assert (tmp_path / "mode").read_text().strip() == "600"


@on_postgres
def test_the_real_programs_take_that_file(with_password: Engine, tmp_path: Path):
    assert make(with_password, tmp_path / "a.tar").num_rows["runs"] == 1
