"""Claims on jobs and slots, on both databases: one owner at a time, stale writes refused."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from runners.lease import Heartbeat
from runners.worker import Worker
from service.config import Settings
from service.db import leases, models
from service.db import runs as runs_db
from service.db.leases import Claim
from service.db.session import Sessions, transaction
from service.domain import Failure, FailureReason, Status
from service.errors import LeaseLost, MeasurementFailed
from service.usecases import runs
from service.usecases.recording import record_pair
from service.usecases.registry import serve_cluster
from tests import factories

LEASE_S = 30.0


@pytest.fixture
def job_id(sessions: Sessions) -> UUID:
    return add_job(sessions)


def add_job(sessions: Sessions) -> UUID:
    with transaction(sessions, factories.unsent) as session:
        return factories.job(session).id


def add_slot(sessions: Sessions, number: int = 0) -> UUID:
    with transaction(sessions, factories.unsent) as session:
        return factories.slot_id(session, number)


def claim(
    sessions: Sessions, *, slot: int = 0, owner: str = "a", lease_s: float = LEASE_S
) -> Claim | None:
    slot_id = add_slot(sessions, slot)
    with transaction(sessions, factories.unsent) as session:
        return leases.claim(session, slot_id, owner=owner, lease_s=lease_s)


def claimed(sessions: Sessions, job_id: UUID, *, lease_s: float = LEASE_S) -> Claim:
    found = claim(sessions, lease_s=lease_s)
    assert found is not None
    assert found.job_id == job_id
    return found


def job(sessions: Sessions, job_id: UUID) -> models.Job:
    with sessions() as session:
        return runs_db.job(session, job_id)


def slots(sessions: Sessions) -> list[models.Slot]:
    with sessions() as session:
        return session.query(models.Slot).order_by(models.Slot.name).all()


def take_back(sessions: Sessions, *, grace_s: float, max_losses: int = 3) -> list[UUID]:
    """Runs of the jobs that were taken back."""
    with transaction(sessions, factories.unsent) as session:
        return leases.take_back_expired(session, grace_s=grace_s, max_losses=max_losses)


def at_once(actions: list[Callable[[], object]]) -> list[object]:
    """Results of actions that start together."""
    barrier, results = threading.Barrier(len(actions)), []

    def act(action: Callable[[], object]) -> None:
        barrier.wait()
        results.append(action())

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_claim_takes_job_and_slot(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id)
    row = job(sessions, job_id)
    assert found.token == 1
    assert (row.status, row.lease_owner) == (Status.RUNNING, "a")
    (slot,) = slots(sessions)
    assert slot.job_id == job_id
    assert row.lease_until is not None
    assert row.started_at is not None
    assert row.lease_until - row.started_at == timedelta(seconds=LEASE_S)


def test_of_many_that_claim_a_job_one_gets_it(sessions: Sessions, job_id: UUID):
    results = at_once([lambda n=n: claim(sessions, slot=n) for n in range(6)])
    assert len(results) == 6
    assert sum(result is not None for result in results) == 1
    assert job(sessions, job_id).lease_token == 1


def test_of_many_that_claim_a_slot_one_gets_it(sessions: Sessions):
    jobs = [add_job(sessions) for _ in range(4)]
    results = at_once([lambda: claim(sessions) for _ in jobs])
    assert sum(result is not None for result in results) == 1
    assert [job(sessions, j).status for j in jobs].count(Status.QUEUED) == 3


def test_several_slots_serve_several_jobs_each_once(sessions: Sessions):
    jobs = {add_job(sessions) for _ in range(6)}
    for number in range(4):
        add_slot(sessions, number)
    results = at_once([lambda n=n: claim(sessions, slot=n) for n in range(4)])
    taken = [result.job_id for result in results if isinstance(result, Claim)]
    assert len(taken) == len(set(taken)) == 4
    assert set(taken) < jobs


def test_the_urgent_go_first_then_the_oldest(sessions: Sessions):
    first, second, urgent = (add_job(sessions) for _ in range(3))
    with transaction(sessions, factories.unsent) as session:
        runs_db.job(session, urgent).priority = 1
    found = [claim(sessions, slot=number) for number in range(3)]
    assert [each and each.job_id for each in found] == [urgent, first, second]


def test_a_slot_is_of_one_cluster_only(sessions: Sessions, job_id: UUID):
    with transaction(sessions, factories.unsent) as session:
        other = serve_cluster(session, "other", "0", num_cpus=4, num_devices=0)
        assert leases.claim(session, other.id, owner="a", lease_s=LEASE_S) is None
    assert job(sessions, job_id).status is Status.QUEUED


@pytest.mark.parametrize("status", [Status.FINISHED, Status.FAILED, Status.CANCELLED])
def test_release_ends_the_job_and_frees_the_slot(sessions: Sessions, job_id: UUID, status: Status):
    found = claimed(sessions, job_id)
    with transaction(sessions, factories.unsent) as session:
        leases.release(session, found, status, Failure(reason=FailureReason.CRASHED, detail="why"))
    row = job(sessions, job_id)
    assert (row.status, row.failure_reason, row.failure_detail) == (
        status,
        FailureReason.CRASHED,
        "why",
    )
    assert row.finished_at is not None
    assert slots(sessions)[0].job_id is None
    assert claim(sessions) is None
    assert claimed(sessions, add_job(sessions))


def stale_writes(found: Claim) -> list[Callable[[Session], object]]:
    return [
        lambda session: leases.extend(session, found, lease_s=LEASE_S),
        lambda session: leases.fence(session, found),
        lambda session: leases.release(session, found, Status.FINISHED),
        lambda session: leases.hand_back(session, found),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("taken_over", [False, True])
def test_stale_writes_are_refused(sessions: Sessions, job_id: UUID, number: int, taken_over: bool):
    stale = claimed(sessions, job_id, lease_s=-1)
    assert take_back(sessions, grace_s=0) == [stale.run_id]
    fresh = claimed(sessions, job_id) if taken_over else None
    before = job(sessions, job_id)
    with pytest.raises(LeaseLost), transaction(sessions, factories.unsent) as session:
        stale_writes(stale)[number](session)
    after = job(sessions, job_id)
    assert after.status is before.status
    assert after.lease_until == before.lease_until
    assert (slots(sessions)[0].job_id is not None) == taken_over
    if fresh is not None:
        assert fresh.token > stale.token
        with transaction(sessions, factories.unsent) as session:
            leases.fence(session, fresh)


def test_a_write_after_a_lost_fence_is_rolled_back(sessions: Sessions, job_id: UUID):
    stale = claimed(sessions, job_id, lease_s=-1)
    take_back(sessions, grace_s=0)

    def write() -> None:
        with transaction(sessions, factories.unsent) as session:
            runs_db.job(session, job_id).device_s += 100
            leases.fence(session, stale)

    with pytest.raises(LeaseLost):
        write()
    assert job(sessions, job_id).device_s == 0


def test_an_expired_lease_is_kept_for_the_grace(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id, lease_s=0.05)
    time.sleep(0.1)
    assert take_back(sessions, grace_s=10) == []
    assert claim(sessions, slot=1, owner="b") is None
    add_job(sessions)
    assert claim(sessions) is None, "the slot is not free before the grace"
    assert take_back(sessions, grace_s=0) == [found.run_id]
    assert slots(sessions)[0].job_id is None
    assert job(sessions, job_id).status is Status.QUEUED


def test_a_lease_that_is_renewed_is_not_requeued(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id, lease_s=-60)
    with transaction(sessions, factories.unsent) as session:
        assert leases.extend(session, found, lease_s=LEASE_S) is False
    assert take_back(sessions, grace_s=0) == []


def test_a_job_that_loses_too_many_workers_fails(sessions: Sessions, job_id: UUID):
    for _ in range(2):
        claimed(sessions, job_id, lease_s=-1)
        take_back(sessions, grace_s=0)
        assert job(sessions, job_id).status is Status.QUEUED
    claimed(sessions, job_id, lease_s=-1)
    take_back(sessions, grace_s=0)
    row = job(sessions, job_id)
    assert (row.status, row.failure_reason) == (Status.FAILED, FailureReason.LEASE_LOST)
    assert row.failure_detail is not None
    assert "3 times" in row.failure_detail
    assert slots(sessions)[0].job_id is None


def test_a_job_that_goes_forward_may_lose_many_workers(sessions: Sessions, job_id: UUID):
    for position in range(4):
        claimed(sessions, job_id, lease_s=-1)
        with transaction(sessions, factories.unsent) as session:
            row = runs_db.job(session, job_id)
            environment = factories.environment(session, row)
            case_id = row.job_cases[0].case_id
            record_pair(session, row, case_id, position, environment, factories.pair())
        take_back(sessions, grace_s=0, max_losses=2)
        assert job(sessions, job_id).status is Status.QUEUED


@pytest.mark.parametrize("way", ["lost", "handed back"])
def test_a_job_that_comes_back_is_not_queued_against_the_wish_to_cancel(
    sessions: Sessions, job_id: UUID, way: str
):
    found = claimed(sessions, job_id, lease_s=-1)
    with transaction(sessions, factories.unsent) as session:
        runs.cancel(session, found.run_id)
        if way == "lost":
            runs.reconcile(session, grace_s=0, max_losses=3, idempotency_s=1e6)
        else:
            leases.hand_back(session, found)
            runs.settle(session, found.run_id)
    row = job(sessions, job_id)
    assert (row.status, row.run.status) == (Status.CANCELLED, Status.CANCELLED)
    assert slots(sessions)[0].job_id is None


def test_cancelling_and_claiming_at_once_leaves_no_slot_taken(sessions: Sessions):
    for _ in range(8):
        job_id = add_job(sessions)
        run_id = job(sessions, job_id).run_id

        def cancel(run_id: UUID = run_id) -> None:
            with transaction(sessions, factories.unsent) as session:
                runs.cancel(session, run_id)

        found, _ = sorted(at_once([lambda: claim(sessions), cancel]), key=lambda x: x is None)
        if isinstance(found, Claim):
            with transaction(sessions, factories.unsent) as session:
                assert leases.extend(session, found, lease_s=LEASE_S), "it hears of the wish"
                leases.release(session, found, Status.CANCELLED)
                runs.settle(session, run_id)
        assert job(sessions, job_id).status is Status.CANCELLED
        assert slots(sessions)[0].job_id is None


def test_handing_back_queues_the_job_as_it_is(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id)
    with transaction(sessions, factories.unsent) as session:
        runs_db.job(session, job_id).device_s += 7
        leases.hand_back(session, found)
    row = job(sessions, job_id)
    assert (row.status, row.lease_owner, row.lease_until) == (Status.QUEUED, None, None)
    assert row.device_s == 7
    assert row.attempt == 1
    assert claimed(sessions, job_id).token > found.token


def test_the_heartbeat_brings_the_wish_to_cancel(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id)
    with transaction(sessions, factories.unsent) as session:
        runs.cancel(session, found.run_id)
    assert job(sessions, job_id).status is Status.RUNNING
    with transaction(sessions, factories.unsent) as session:
        assert leases.extend(session, found, lease_s=LEASE_S) is True


def test_times_are_the_database_s(sessions: Sessions):
    with transaction(sessions, factories.unsent) as session:
        first = leases.database_now(session)
        time.sleep(0.01)
        second = leases.database_now(session)
    assert first.tzinfo is not None
    assert timedelta(0) < second - first < timedelta(seconds=5)


def beating(sessions: Sessions, found: Claim, lease_s: float) -> Heartbeat:
    return Heartbeat(worker(sessions, lease_s), found)


def worker(sessions: Sessions, lease_s: float) -> Worker:
    settings = Settings(lease_s=lease_s)
    return Worker(
        name="w", settings=settings, sessions=sessions, send=factories.unsent, slot_id=UUID(int=3)
    )


def until_raised(heartbeat: Heartbeat, limit_s: float) -> Exception | None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            heartbeat.check()
        except Exception as error:
            return error
        time.sleep(0.01)
    return None


def test_a_heartbeat_keeps_the_lease(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id, lease_s=0.6)
    with beating(sessions, found, 0.6) as heartbeat:
        assert until_raised(heartbeat, 0.9) is None
        assert take_back(sessions, grace_s=0) == []


def test_a_heartbeat_notices_that_the_job_was_taken(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id, lease_s=-1)
    take_back(sessions, grace_s=0)
    with beating(sessions, found, 0.5) as heartbeat:
        assert isinstance(until_raised(heartbeat, 2), LeaseLost)


def test_a_heartbeat_notices_the_wish_to_cancel(sessions: Sessions, job_id: UUID):
    found = claimed(sessions, job_id)
    with transaction(sessions, factories.unsent) as session:
        runs.cancel(session, found.run_id)
    with beating(sessions, found, 0.5) as heartbeat:
        error = until_raised(heartbeat, 2)
    assert isinstance(error, MeasurementFailed)
    assert error.failure.reason is FailureReason.CANCELLED


def test_without_a_database_the_lease_is_lost_after_half_its_length():
    found = Claim(job_id=UUID(int=1), run_id=UUID(int=2), token=1)

    def broken() -> Session:
        raise OperationalError("select", {}, Exception("gone"))

    with beating(broken, found, 0.5) as heartbeat:  # type: ignore[arg-type]
        assert until_raised(heartbeat, 0.15) is None
        assert isinstance(until_raised(heartbeat, 2), LeaseLost)
