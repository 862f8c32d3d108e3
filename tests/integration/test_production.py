"""Production mode with its real parts: PostgreSQL, Redis, workers and a beat as processes.

The measured program is a torch-free rank program under a torch-free launcher: the project brings a
`torch/distributed/run.py` of its own, so a trial starts in a moment.
"""

import signal
import time
from datetime import UTC, datetime

import pytest

from service.domain import Status
from tests.fleet import Fleet, assert_right

pytestmark = pytest.mark.timeout(600)


def test_a_run_goes_from_the_api_through_redis_to_a_worker(fleet: Fleet):
    fleet.start("worker", slot="0")
    run = fleet.wait(fleet.request("slower"))
    assert_right(run)


def test_workers_of_a_cluster_share_its_jobs(fleet: Fleet):
    for slot in ("0", "1"):
        fleet.start("worker", slot=slot)
    runs = [fleet.wait(run) for run in [fleet.request("slower") for _ in range(4)]]
    for run in runs:
        assert_right(run)
    assert len(fleet.owners()) == 2


def test_what_redis_forgot_is_found_by_the_reconciler(fleet: Fleet):
    run = fleet.request("slower")
    fleet.redis.stop()
    other = fleet.request("slower")
    fleet.redis.start()
    fleet.start("worker", slot="0")
    fleet.start("beat")
    assert_right(fleet.wait(run))
    assert_right(fleet.wait(other))


def test_the_beat_asks_for_what_a_schedule_wants(fleet: Fleet):
    fleet.schedule("slower", next_at=datetime(2026, 1, 1, tzinfo=UTC))
    fleet.start("worker", slot="0")
    fleet.start("beat")
    first = fleet.wait(fleet.next_run())
    assert_right(first)
    assert first.requested_by == "schedule nightly"
    fleet.schedule("slower", next_at=datetime(2026, 1, 1, tzinfo=UTC))
    second = fleet.wait(fleet.next_run(after=first.id))
    assert second.status is Status.CANCELLED
    assert second.headline.startswith("Nothing is new")
    assert second.baseline.requested == first.candidate.sha


def test_redis_restarted_in_mid_run(fleet: Fleet):
    fleet.start("worker", slot="0")
    fleet.start("beat")
    run = fleet.request("slower")
    fleet.await_trial()
    fleet.redis.stop()
    time.sleep(1)
    fleet.redis.start()
    after = fleet.request("slower")
    assert_right(fleet.wait(run))
    assert_right(fleet.wait(after))


def test_a_killed_worker_s_job_is_taken_up_and_no_pair_is_counted_twice(fleet: Fleet):
    worker = fleet.start("worker", slot="0")
    fleet.start("beat")
    run = fleet.request("slower")
    fleet.await_trial()
    worker.kill()
    worker.wait()
    fleet.start("worker", slot="0")
    done = fleet.wait(run)
    assert_right(done)


def test_a_worker_that_slept_through_its_lease_writes_nothing(fleet: Fleet):
    sleeper = fleet.start("worker", slot="0")
    fleet.start("beat")
    run = fleet.request("slower")
    fleet.await_trial()
    sleeper.send_signal(signal.SIGSTOP)
    fleet.start("worker", slot="0")
    done = fleet.wait(run)
    before = fleet.rows()
    sleeper.send_signal(signal.SIGCONT)
    time.sleep(3)
    assert fleet.rows() == before
    assert_right(done)
    assert sleeper.poll() is None, "it goes on as an idle worker"
    assert_right(fleet.wait(fleet.request("slower")))
    assert "no longer this worker's" in fleet.log(sleeper) or "half a lease" in fleet.log(sleeper)


def test_a_worker_told_to_end_hands_its_job_back(fleet: Fleet):
    worker = fleet.start("worker", slot="0")
    run = fleet.request("slower")
    fleet.await_trial()
    worker.terminate()
    assert worker.wait(30) == 0
    assert not fleet.alive()
    fleet.start("worker", slot="1")
    fleet.start("beat")
    assert_right(fleet.wait(run))
