"""Checks on what the service keeps things in: database, broker, artifact store, disks."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from redis import Redis, RedisError
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.artifacts import ArtifactStore
from service.config import Settings
from service.db import leases, migration
from service.db.postgres_programs import cut_off
from service.db.session import make_engine
from service.doctor.finding import Finding, failure, ok, warning

_SKEW_S = 2.0
_GIB = 2**30
_SCARCE_BYTES, _LITTLE_BYTES = _GIB, 10 * _GIB
_TIMEOUT_S = 5.0


def database(settings: Settings) -> Iterator[Finding]:
    """The database answers, has the schema of this version, and its clock agrees with ours."""
    url = make_url(settings.resolved_database_url)
    name = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        yield warning("database", f"{name} does not exist yet.", remedy="`paceline up` makes it.")
        return
    engine = make_engine(settings.resolved_database_url)
    try:
        yield from _answering(engine, name)
    except SQLAlchemyError as error:
        words = str(getattr(error, "orig", None) or error).strip().splitlines()
        yield failure(
            "database",
            f"{name} does not answer: {words[0] if words else type(error).__name__}",
            remedy="Start it, or set PACELINE_DATABASE_URL to where it is.",
        )
    finally:
        engine.dispose()


def _answering(engine: Engine, name: str) -> Iterator[Finding]:
    with Session(engine) as session:
        before = datetime.now(UTC)
        theirs = leases.database_now(session)
        after = datetime.now(UTC)
        is_cut_off = cut_off(session.connection()) is not None
    version = ".".join(map(str, engine.dialect.server_version_info or ()))
    kind = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}[engine.dialect.name]
    yield ok("database", f"{name} is {kind} {version}.")
    lacking = migration.pending(engine)
    if lacking is None:
        yield ok("schema", f"It is as this version needs it: at {migration.head()} or later.")
    elif is_cut_off:
        yield failure("schema", lacking, remedy="See docs/operations.md, Backup and restore.")
    else:
        yield failure("schema", lacking, remedy="paceline db upgrade")
    yield clock((theirs - (before + (after - before) / 2)).total_seconds())


def clock(skew_s: float) -> Finding:
    """Whether the database's clock agrees with this machine's.

    Leases are on the database's clock alone, so a skew stops nothing.
    """
    if abs(skew_s) <= _SKEW_S:
        return ok("clock", f"It differs from the database's by {abs(skew_s):.1f} s.")
    way = "behind" if skew_s > 0 else "ahead of"
    return warning(
        "clock",
        f"It is {abs(skew_s):.0f} s {way} the database's: times of trials are off by that.",
        remedy="Run an NTP client on both machines.",
    )


def broker(settings: Settings) -> Finding:
    """The broker answers, and never throws messages away to save memory."""
    if settings.is_standalone:
        return ok("broker", "Messages stay in this process (standalone mode).")
    if not settings.broker_url.startswith(("redis://", "rediss://")):
        return warning(
            "broker",
            "PACELINE_BROKER_URL names no Redis, and nothing else has been tried.",
            remedy="Name a Redis: redis://:PASSWORD@HOST:6379/0",
        )
    try:
        with Redis.from_url(settings.broker_url, socket_timeout=_TIMEOUT_S) as client:
            info = client.info()
    except (RedisError, OSError, ValueError) as error:
        return failure(
            "broker",
            f"Redis does not answer: {error}",
            remedy="Start it, or set PACELINE_BROKER_URL to where it is, with its password.",
        )
    return redis_policy(str(info["redis_version"]), str(info["maxmemory_policy"]))


def redis_policy(version: str, policy: str) -> Finding:
    """Whether a Redis keeps what it has taken."""
    if policy == "noeviction":
        return ok("broker", f"It is Redis {version}.")
    return warning(
        "broker",
        f"Redis {version} drops messages when memory is short (maxmemory-policy {policy}).",
        remedy="Set maxmemory-policy to noeviction; what is dropped waits for the reconciler.",
    )


def artifacts(settings: Settings) -> Finding:
    """The artifact store takes a file, gives it back and deletes it."""
    url, content = settings.resolved_artifact_url, uuid4().bytes
    try:
        store, path = ArtifactStore(url), f"doctor-{uuid4()}"
        store.put(path, content)
        found = store.read(path)
        store.remove(path)
    except Exception as error:  # every kind of store has errors of its own
        return failure(
            "artifacts",
            f"{url} takes, gives back or deletes no file: {error or type(error).__name__}",
            remedy="Give this user the right to write there, or set PACELINE_ARTIFACT_URL.",
        )
    if found != content:
        detail = f"{url} gave back something else than it was given."
        return failure("artifacts", detail, remedy="Do not use this store.")
    return ok("artifacts", f"{url} takes files, gives them back and deletes them.")


def disks(settings: Settings) -> Iterator[Finding]:
    """Room for mirrors, environments and artifacts, and for the scratch of trials."""
    places = {"data": settings.data_dir.absolute(), "scratch": Path(tempfile.gettempdir())}
    for name, path in places.items():
        there = next(folder for folder in (path, *path.parents) if folder.exists())
        yield room(name, path, shutil.disk_usage(there).free)


def room(name: str, path: Path, free_bytes: int) -> Finding:
    """Whether a folder has room enough."""
    check, detail = f"disk ({name})", f"{path} has {free_bytes / _GIB:.1f} GiB free."
    if free_bytes >= _LITTLE_BYTES:
        return ok(check, detail)
    remedy = "Make room, or move it: PACELINE_DATA_DIR for data, TMPDIR for scratch."
    return (failure if free_bytes < _SCARCE_BYTES else warning)(check, detail, remedy=remedy)
