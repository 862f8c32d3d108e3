"""What a job stands on goes away in mid-run and comes back: database, broker, disk, service."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import pytest
import sqlalchemy as sa

from service.domain import FailureReason, Status
from tests import postgres, standalone
from tests.conftest import administer, migrate, missing
from tests.fleet import Fleet, assert_right
from tests.standalone import Standalone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DISK_BYTES = 2**26
MINUTE_S = 60.0


@pytest.fixture
def service() -> Iterator[Standalone]:
    with Standalone() as made:
        yield made


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own at a folder."""
    if os.geteuid() != 0:
        missing("root, who alone can mount a small disk")
    options = f"size={DISK_BYTES},mode=0711"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def write_for_ever(file: IO[bytes], size: int) -> NoReturn:
    """Write until it fails."""
    while True:
        file.write(bytes(size))


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Leaves no room on the disk of a folder."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 2**12):
            with pytest.raises(OSError, match="No space"):
                write_for_ever(file, size)
    try:
        yield
    finally:
        path.unlink()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_postgresql_restarted_in_mid_run(
    how: signal.Signals, postgres_programs: Path, redis_program: Path
):
    """Shut down in order, and as in a crash."""
    with postgres.Server(postgres_programs) as server:
        administer(server.url, "create database paceline")
        url = server.url.format("paceline")
        migrate(url)
        with Fleet(url, redis_program) as fleet:
            fleet.start("worker", slot="0")
            fleet.start("beat")
            run = fleet.request("slower")
            fleet.await_trial()
            server.stop(how)
            time.sleep(2)
            server.start()
            assert_right(fleet.wait(run))
            assert_right(fleet.wait(fleet.request("slower")))
            fleet.until(lambda: fleet.held() == 0, MINUTE_S)


def test_redis_flushed_in_mid_run(fleet: Fleet):
    fleet.start("worker", slot="0")
    fleet.start("beat")
    run = fleet.request("slower")
    fleet.await_trial()
    fleet.redis.flush()
    after = fleet.request("slower")
    assert_right(fleet.wait(run))
    assert_right(fleet.wait(after))


def test_a_worker_s_disk_is_full_in_mid_run(fleet: Fleet):
    """The run says so; the next one, with room again, is measured."""
    store = fleet.folder / "artifacts"
    with small_disk(store):
        fleet.start("worker", slot="0")
        run_id = fleet.request("slower")
        fleet.await_trial()
        with filled(store):
            run = fleet.wait(run_id)
        assert (run.status, run.failure_reason) == (Status.FAILED, FailureReason.NO_SPACE)
        assert "Free space" in (run.failure_detail or "")
        assert fleet.held() == 0
        assert_right(fleet.wait(fleet.request("slower")))


def test_a_standalone_service_s_disk_is_full_in_mid_run(service: Standalone):
    """Its database, too: the run goes on when there is room again, or says what it lacked."""
    service.kill()
    with small_disk(service.data):
        service.start()
        source = {"name": "trainers", "source": str(service.folder / "source")}
        service.ask("POST", "/projects", source)
        run_id = service.request()
        service.await_trial()
        with filled(service.data):
            time.sleep(8)  # longer than a pair and a lease
        run = service.wait(run_id)
        standalone.assert_whole(run)
        if run["status"] == "failed":
            assert run["failure_reason"] == "no_space"
        else:
            assert run["verdict"] == "regression", run["headline"]
        standalone.assert_right(service.wait(service.request()))
        service.kill()
        assert service.gone_within(MINUTE_S) == []


def test_a_standalone_service_may_be_killed_at_any_moment(service: Standalone):
    rng = random.Random("up")
    asked = []
    for _ in range(4):
        asked.append(service.request())  # the one before may have ended by now
        service.await_trial()
        time.sleep(rng.uniform(0, 2))
        service.kill()
        assert service.gone_within(MINUTE_S) == []
        service.start()
    for run_id in asked:
        standalone.assert_right(service.wait(run_id))
    engine = sa.create_engine(f"sqlite:///{service.data / 'paceline.db'}")
    with engine.connect() as connection:
        for table, column in (("slots", "job_id"), ("jobs", "lease_until")):
            query = sa.text(f"select count(*) from {table} where {column} is not null")
            assert connection.scalar(query) == 0
    engine.dispose()
