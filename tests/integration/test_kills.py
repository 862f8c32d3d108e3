"""Whatever is killed, and whenever: the run ends right, nothing is counted twice or left behind."""

import itertools
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.domain import Status, Verdict
from tests import standalone
from tests.conftest import postgres_database
from tests.fleet import Fleet, Process, assert_right, assert_whole
from tests.standalone import Standalone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

MINUTE_S = 60.0
VICTIMS = ("worker", "guard", "turnserver", "agent", "rank")


@pytest.fixture
def fleet(postgres_url: str, migrated_postgres: str, redis_program: Path) -> Iterator[Fleet]:
    with (
        postgres_database(postgres_url, migrated_postgres) as engine,
        Fleet(
            engine.url.render_as_string(hide_password=False),
            redis_program,
            steps=60,
            lease_s=6,
            max_losses=30,
        ) as made,
    ):
        yield made


def assert_nothing_is_left(fleet: Fleet) -> None:
    """No process, lease or slot a minute after the last job."""
    assert fleet.gone_within(MINUTE_S) == []
    fleet.until(lambda: fleet.held() == 0, MINUTE_S)


@pytest.mark.chaos
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_may_die_at_every_commit_of_a_job(fleet: Fleet, moment: str):
    fleet.start("beat")
    for number in itertools.count(1):
        run_id = fleet.request("slower")
        dying = fleet.start_dying(moment, number, slot="0")
        fleet.until(lambda p=dying, r=run_id: p.poll() is not None or fleet.run(r).status.is_final)
        survived = dying.poll() is None
        helper = dying if survived else fleet.start("worker", slot="0")
        assert_right(fleet.wait(run_id))
        helper.terminate()
        helper.wait(MINUTE_S)
        if survived:
            break
    assert number > 8, "a job has more commits than that"
    assert_nothing_is_left(fleet)


@pytest.mark.chaos
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_standalone_service_may_die_at_every_commit_of_a_job(moment: str):
    with Standalone() as service:
        for number in itertools.count(1):
            run_id = service.request()
            service.kill()
            service.start("tests.dying", moment, str(number))
            service.await_death_or(run_id)
            survived = service.is_alive
            if not survived:
                service.start()
            standalone.assert_right(service.wait(run_id))
            if survived:
                break
        assert number > 8, "a job has more commits than that"
        service.kill()
        assert service.gone_within(MINUTE_S) == []


@pytest.mark.parametrize("victim", VICTIMS)
def test_anything_may_be_killed_at_any_moment(fleet: Fleet, victim: str):
    rng = random.Random(victim)
    fleet.start("beat")
    workers = {"0": fleet.start("worker", slot="0")}
    for _ in range(3):
        run_id = fleet.request("slower")
        fleet.await_trial()
        time.sleep(rng.uniform(0, 1.5))
        fleet.until(lambda: kill_one(fleet, workers, victim, rng))
        run = fleet.wait(run_id)
        assert run.status is Status.FINISHED, run.headline
        assert run.verdict is not Verdict.NO_CHANGE, "it is slower"
        assert_whole(run)
    assert_nothing_is_left(fleet)


def test_fifty_jobs_survive_thirty_kills(fleet: Fleet):
    """Four workers; five of the jobs run under the real torchrun."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    fleet.start("beat")
    workers = {str(slot): fleet.start("worker", slot=str(slot)) for slot in range(4)}
    fleet.add_torch_project()
    asked = [fleet.request("slower") for _ in range(45)]
    asked += [fleet.request("slower", project="torch") for _ in range(5)]
    num_kills = 0
    deadline = time.monotonic() + 20 * MINUTE_S
    while not all(fleet.status(run_id).is_final for run_id in asked):
        assert time.monotonic() < deadline, fleet.logs()
        time.sleep(rng.uniform(0.5, 4))
        num_kills += kill_one(fleet, workers, rng.choice(VICTIMS), rng)
    assert num_kills >= 30
    runs = [fleet.run(run_id) for run_id in asked]
    for run in runs:
        assert run.status is Status.FINISHED, run.headline
        assert run.verdict is not Verdict.NO_CHANGE, "it is slower"
        assert_whole(run)
    right = sum(run.verdict is Verdict.REGRESSION for run in runs)
    assert right > len(runs) / 2, "kills make pairs invalid, not wrong"
    assert_nothing_is_left(fleet)


def kill_one(fleet: Fleet, workers: dict[str, Process], victim: str, rng: random.Random) -> int:
    """Kill one process of a kind; how many were found. A killed worker is started again."""
    if victim == "worker":
        slot = rng.choice(sorted(workers))
        workers[slot].kill()
        workers[slot].wait()
        workers[slot] = fleet.start("worker", slot=slot)
        return 1
    words = {"guard": "runners.guard", "turnserver": "runners.turnserver"}
    words |= {"agent": "torch.distributed.run", "rank": "train.py"}
    found = []
    for process in fleet.processes():
        try:
            line = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        is_rank = "train.py" in line and "torch.distributed.run" not in line
        if is_rank if victim == "rank" else words[victim] in line:
            found.append(process)
    if not found:
        return 0
    try:
        rng.choice(found).send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return 0
    return 1
