"""What a worker makes of pairs as they come: when to stop, what a failure means, how to go on.

Launching is faked; test_end_to_end launches for real.
"""

import errno
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.exc import OperationalError

from runners import measure
from runners.bench import Bench
from runners.spec import SLOT_VARIABLE
from service.db import leases, results
from service.db import runs as runs_db
from service.db.session import Message, Sessions, transaction
from service.domain import Arrangement, Failure, FailureReason, Role, Status, Verdict
from service.errors import Interrupted, MeasurementFailed
from service.usecases import recording, runs
from service.usecases.recording import PairResult
from tests import factories
from tests.conftest import on_sqlite
from tests.integration.lab import Lab, invalid, raising, reasons, stopping_after
from tests.integration.measured import POLICY, pairs_with, with_open_memory

pytestmark = on_sqlite


@pytest.fixture
def lab(sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(sessions, tmp_path, monkeypatch)


def test_measuring_stops_at_the_first_clear_verdict(lab: Lab):
    lab.pairs += pairs_with(0.1, 20)
    run = lab.measure(lab.job())
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.REGRESSION)
    assert len(run.pairs) == 3
    assert run.started_at is not None
    assert run.finished_at is not None
    assert run.device_s == pytest.approx(60.0)
    assert lab.slots_are_free()


def test_sides_start_first_in_turn(lab: Lab):
    lab.pairs += [pair for change in (0.2, -0.2) * 5 for pair in pairs_with(change, 1)]
    lab.measure(lab.job(policy=replace(POLICY, max_pairs=8)))
    b, c = Role.BASELINE, Role.CANDIDATE
    assert lab.firsts == [b, c, c, b, b, c, c, b]


def test_the_last_look_ends_without_a_verdict(lab: Lab):
    lab.pairs += [pair for change in (0.2, -0.2) * 5 for pair in pairs_with(change, 1)]
    run = lab.measure(lab.job(policy=replace(POLICY, max_pairs=7)))
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.INCONCLUSIVE)
    assert len(run.pairs) == 5, "7 is rounded down to a look"


def test_an_invalid_pair_is_made_up_for(lab: Lab):
    lab.pairs += [invalid(Role.CANDIDATE), *pairs_with(0.1, 3)]
    run = lab.measure(lab.job())
    assert run.verdict is Verdict.REGRESSION
    assert len(run.pairs) == 4
    assert lab.solos == [Role.CANDIDATE], "the side that failed is tried once alone"


@pytest.mark.parametrize(
    ("culprit", "baseline", "candidate", "verdict"),
    [
        (Role.CANDIDATE, None, FailureReason.CRASHED, Verdict.BROKEN),
        (Role.CANDIDATE, None, FailureReason.OUT_OF_MEMORY, Verdict.BROKEN),
        (Role.CANDIDATE, None, FailureReason.STALLED, Verdict.BROKEN),
        (Role.CANDIDATE, None, FailureReason.NAN_LOSS, Verdict.BROKEN),
        (Role.CANDIDATE, None, FailureReason.NO_STEPS, Verdict.INVALID),
        (Role.CANDIDATE, None, FailureReason.BAD_RECORDS, Verdict.INVALID),
        (Role.CANDIDATE, FailureReason.CRASHED, FailureReason.CRASHED, Verdict.MISSING),
        (Role.BASELINE, FailureReason.CRASHED, None, Verdict.MISSING),
        (Role.BASELINE, FailureReason.KILLED, FailureReason.KILLED, Verdict.MISSING),
    ],
)
def test_what_a_failure_means(
    lab: Lab,
    culprit: Role,
    baseline: FailureReason | None,
    candidate: FailureReason | None,
    verdict: Verdict,
):
    lab.pairs.append(invalid(culprit))
    lab.solo = {Role.BASELINE: baseline, Role.CANDIDATE: candidate}
    run = lab.measure(lab.job())
    assert (run.status, run.verdict) == (Status.FINISHED, verdict)
    assert "Rank 1 exited with 3." in reasons(run)
    assert len([trial for trial in run.trials if trial.pair is None]) == len(lab.solos)


@pytest.mark.parametrize(
    ("culprit", "open_verdict"),
    [(Role.BASELINE, Verdict.MISSING), (Role.CANDIDATE, Verdict.BROKEN)],
)
def test_a_later_failure_leaves_the_first_decision_alone(
    lab: Lab, culprit: Role, open_verdict: Verdict
):
    lab.pairs += [*with_open_memory(0.1), invalid(culprit)]
    lab.solo[culprit] = FailureReason.CRASHED
    run = lab.measure(lab.job())
    found = {comparison.metric: comparison.verdict for comparison in run.comparisons}
    assert found["step_time_s"] is Verdict.REGRESSION
    assert found["peak_rss_bytes"] is open_verdict
    assert run.status is Status.FINISHED
    assert len(run.pairs) == 4


def test_pairs_that_stay_invalid_are_given_up(lab: Lab):
    lab.pairs += [invalid(Role.CANDIDATE) for _ in range(5)]
    run = lab.measure(lab.job())
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.INVALID)
    assert len(run.pairs) == 3
    assert "All 3 pairs were invalid" in reasons(run)


def test_a_budget_that_is_spent_ends_the_measuring(lab: Lab):
    lab.pairs += pairs_with(0.1, 20)
    policy = replace(POLICY, budget_device_hours=30 / 3600)
    run = lab.measure(lab.job(policy=policy))
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.INCONCLUSIVE)
    assert len(run.pairs) == 2


def test_a_case_the_budget_did_not_reach_is_missing(lab: Lab):
    lab.pairs += pairs_with(0.0, 20)
    cases = [factories.case("first"), factories.case("second")]
    run = lab.measure(lab.job(cases=cases, policy=replace(POLICY, budget_device_hours=55 / 3600)))
    found = {comparison.case: comparison.verdict for comparison in run.comparisons}
    assert found["second"] is Verdict.MISSING
    assert run.verdict is Verdict.MISSING, "no verdict is not no regression"


def test_a_case_that_cannot_be_measured_is_missing_beside_others(lab: Lab):
    lab.pairs += pairs_with(0.0, 20)
    cases = [factories.case("small"), factories.case("wide", world_size=64)]
    run = lab.measure(lab.job(cases=cases, unmeasurable={"wide": "It needs 64 ranks."}))
    found = {comparison.case: comparison.verdict for comparison in run.comparisons}
    assert found == {"small": Verdict.NO_CHANGE, "wide": Verdict.MISSING}
    assert run.verdict is Verdict.MISSING
    assert "It needs 64 ranks." in reasons(run)


def test_separate_launches_where_the_case_says_so(lab: Lab):
    lab.pairs += [replace(pair, arrangement=Arrangement.ABBA) for pair in pairs_with(0.1, 3)]
    run = lab.measure(lab.job(cases=[factories.case(arrangement=Arrangement.ABBA)]))
    assert {pair.arrangement for pair in run.pairs} == {Arrangement.ABBA}
    assert run.verdict is Verdict.REGRESSION


def test_a_failed_preparation_fails_the_run_and_keeps_its_log(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_arguments: object) -> None:
        failure = Failure(reason=FailureReason.SETUP_FAILED, detail="setup.install.0 failed")
        raise MeasurementFailed(failure, "gcc: no")

    monkeypatch.setattr(measure, "prepare_sides", broken)
    run = lab.measure(lab.job())
    assert (run.status, run.verdict) == (Status.FAILED, None)
    assert run.failure_reason is FailureReason.SETUP_FAILED
    (log,) = run.artifacts
    with lab.sessions() as session:
        path = results.artifact(session, log.id).path
    assert (lab.worker.data_dir / "artifacts" / path).read_text() == "gcc: no"
    assert lab.slots_are_free()


def test_our_own_failure_fails_the_run_without_its_details(lab: Lab):
    lab.measure_pair = raising(RuntimeError("a fault of ours"))
    run = lab.measure(lab.job())
    assert (run.status, run.failure_reason) == (Status.FAILED, FailureReason.INTERNAL)
    assert "a fault of ours" not in str(run)
    assert lab.slots_are_free()


def test_a_running_job_can_be_cancelled(lab: Lab):
    job_id = lab.job()
    lab.worker.settings.lease_s = 0.5

    def cancel() -> None:
        with transaction(lab.sessions, lab.sent.append) as session:
            runs.cancel(session, runs_db.job(session, job_id).run_id)

    def wait(bench: Bench) -> PairResult:
        cancel()
        stop = threading.Event()
        for _ in range(100):
            bench.check()
            stop.wait(0.05)
        raise AssertionError("the wish to cancel did not arrive")

    lab.measure_pair = wait
    run = lab.measure(job_id)
    assert (run.status, run.verdict) == (Status.CANCELLED, None)
    assert lab.slots_are_free()


def test_a_worker_that_stops_hands_the_job_back_with_what_was_measured(lab: Lab):
    job_id, pairs = lab.job(), pairs_with(0.1, 3)
    lab.measure_pair = stopping_after(lab, pairs[:2])
    lab.sent.clear()
    assert lab.measure(job_id).status is Status.RUNNING
    assert lab.slots_are_free()
    assert lab.sent == [Message(runs.EXECUTE_TASK, ("local",))], "another worker may take it up"
    lab.worker.stopping.clear()
    lab.measure_pair = stopping_after(lab, pairs[2:])
    run = lab.measure(job_id)
    assert run.verdict is Verdict.REGRESSION
    assert [pair.position for pair in run.pairs] == [0, 1, 2]


def test_a_job_whose_pairs_were_all_invalid_before_a_restart(lab: Lab):
    job_id = lab.job()
    with transaction(lab.sessions, lab.sent.append) as session:
        job = runs_db.job(session, job_id)
        environment = factories.environment(session, job)
        for position in range(3):
            pair = invalid(Role.CANDIDATE)
            recording.record_pair(
                session, job, job.job_cases[0].case_id, position, environment, pair
            )
    run = lab.measure(job_id)
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.INVALID)


def test_a_lost_lease_writes_nothing_more(lab: Lab):
    job_id = lab.job()

    def lose(_bench: Bench) -> PairResult:
        with transaction(lab.sessions, lab.sent.append) as session:
            runs_db.job(session, job_id).lease_until = factories.NOON
            session.flush()
            leases.take_back_expired(session, grace_s=0, max_losses=3)
        lab.worker.stopping.set()  # or it would take the job up again itself
        return factories.pair()

    lab.measure_pair = lose
    run = lab.measure(job_id)
    assert run.status is Status.RUNNING, "the new owner decides"
    assert run.pairs == run.trials == []
    with lab.sessions() as session:
        assert runs_db.job(session, job_id).status is Status.QUEUED


def test_a_job_is_executed_once(lab: Lab):
    job_id = lab.job()
    lab.pairs += pairs_with(0.1, 3)
    first = lab.measure(job_id)
    assert lab.measure(job_id) == first


def test_a_worker_goes_on_with_the_next_job(lab: Lab):
    first, second = lab.job(), lab.job()
    lab.pairs += pairs_with(0.1, 6)
    lab.measure(first)
    assert lab.detail(first).status is lab.detail(second).status is Status.FINISHED


def test_verdicts_of_a_finished_case_stand_when_the_job_is_taken_up_again(lab: Lab):
    """`broken` without a pair, settled, and missing: none is measured again."""
    cases = [factories.case(name) for name in ("broken", "settled", "wide", "open")]
    job_id = lab.job(cases=cases, unmeasurable={"wide": "It needs 64 ranks."})
    lab.solo[Role.CANDIDATE] = FailureReason.CRASHED
    lab.measure_pair = stopping_after(lab, [invalid(Role.CANDIDATE), *pairs_with(0.1, 3)])
    lab.measure(job_id)
    before = lab.detail(job_id).comparisons
    assert {item.case for item in before} == {"broken", "settled", "wide"}
    lab.worker.stopping.clear()
    lab.measure_pair = stopping_after(lab, pairs_with(0.0, 20))
    run = lab.measure(job_id)
    assert run.status is Status.FINISHED
    assert [item for item in run.comparisons if item.case != "open"] == before
    assert run.verdict is Verdict.BROKEN


def test_without_a_database_the_job_is_left_as_it_is(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    job_id, pairs = lab.job(), pairs_with(0.1, 3)
    lab.worker.settings.lease_s = 1.0
    error = OperationalError("insert", {}, Exception("the server closed the connection"))

    def lost(*_arguments: object) -> None:
        lab.worker.stopping.set()
        raise error

    lab.measure_pair = lambda _bench: pairs.pop(0)
    with monkeypatch.context() as patch:
        patch.setattr(recording, "record_pair", lost)
        lab.measure(job_id)
    with lab.sessions() as session:
        assert runs_db.job(session, job_id).status is Status.RUNNING, "nothing could be written"
    threading.Event().wait(1.5)
    with transaction(lab.sessions, lab.sent.append) as session:
        runs.reconcile(session, grace_s=0, max_losses=3, idempotency_s=1e6)
    lab.worker.stopping.clear()
    pairs = pairs_with(0.1, 3)
    lab.measure_pair = lambda _bench: pairs.pop(0)
    run = lab.measure(job_id)
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.REGRESSION)
    assert [pair.position for pair in run.pairs] == [0, 1, 2]


def test_a_job_whose_helper_was_killed_is_taken_up_again(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    def killed(*_arguments: object) -> None:
        raise Interrupted("git worktree add: Its guard ended with -9.")

    monkeypatch.setattr(measure, "prepare_sides", killed)
    lab.pairs = pairs_with(0.10, 3)
    job_id = lab.job()
    assert lab.measure(job_id).status is Status.RUNNING, "nobody failed; its lease runs out"
    monkeypatch.setattr(measure, "prepare_sides", lambda *_arguments: {})
    with transaction(lab.sessions, lab.sent.append) as session:
        leases.take_back_expired(session, grace_s=-60, max_losses=3)
    run = lab.measure(job_id)
    assert (run.status, run.verdict) == (Status.FINISHED, Verdict.REGRESSION)


def test_a_full_disk_is_told_as_one(lab: Lab):
    lab.measure_pair = raising(OSError(errno.ENOSPC, "No space left on device", "/data/log.txt"))
    run = lab.measure(lab.job())
    assert (run.status, run.failure_reason) == (Status.FAILED, FailureReason.NO_SPACE)
    assert "/data/log.txt" in (run.failure_detail or "")
    assert lab.slots_are_free()


def test_what_an_earlier_holder_of_the_slot_left_is_ended(lab: Lab):
    slot = {SLOT_VARIABLE: str(lab.worker.slot_id)}
    ours = subprocess.Popen(["sleep", "600"], env=slot, start_new_session=True)
    others = subprocess.Popen(["sleep", "600"], env={SLOT_VARIABLE: str(uuid4())})
    try:
        lab.pairs += pairs_with(0.1, 3)
        lab.measure(lab.job())
        assert ours.wait(10) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        others.kill()
        others.wait()


def test_every_random_choice_follows_from_the_seed_of_the_run(lab: Lab):
    for _ in range(2):
        job_id = lab.job()
        with transaction(lab.sessions, lab.sent.append) as session:
            runs_db.lock(session, runs_db.job(session, job_id).run_id).seed = 7
        lab.pairs += pairs_with(0.1, 3)
        lab.measure(job_id)
    assert lab.seeds[:3] == lab.seeds[3:]
    assert len(set(lab.seeds)) == 3
