"""From a worker's results to stored verdicts and views, on both databases."""

from dataclasses import asdict, replace
from datetime import timedelta
from uuid import uuid4

import numpy as np
import pytest
import sqlalchemy.exc
from sqlalchemy.orm import Session

from service.db import models, reading, results
from service.db import runs as runs_db
from service.db.session import Sessions, transaction
from service.domain import (
    Arrangement,
    Failure,
    FailureReason,
    Policy,
    Role,
    Rule,
    Status,
    Verdict,
)
from service.errors import NotFound
from service.usecases import judge, recording
from service.usecases.recording import StoredFile
from tests import factories
from tests.integration.measured import (
    POLICY,
    by_metric,
    case_id,
    judged,
    pairs_with,
    record,
    reporting,
    with_open_memory,
)


def test_a_pair_comes_back_as_it_was(session: Session, job: models.Job):
    file = StoredFile(kind="log", name="log.txt", path="runs/1/log.txt", num_bytes=7)
    given = factories.pair(first=Role.CANDIDATE, steps_per_turn=3)
    peak = np.array([2**40 + 1], dtype=np.int64)
    trials = {
        role: replace(trial, files=[file], samples={**trial.samples, "peak_rss_bytes": peak})
        for role, trial in given.trials.items()
    }
    record(session, job, replace(given, trials=trials))

    (pair,) = results.pairs(session, job.id, case_id(job))
    assert (pair.position, pair.first, pair.steps_per_turn) == (0, Role.CANDIDATE, 3)
    assert (pair.arrangement, pair.invalid_reason) == (Arrangement.LOCKSTEP, None)
    assert pair.started_at == given.started_at
    assert pair.environment.hard == {"cpu_model": "Z80"}
    assert [trial.role for trial in pair.trials] == [Role.BASELINE, Role.CANDIDATE]
    for trial in pair.trials:
        expected = trials[trial.role]
        assert trial.id == expected.trial_id
        assert trial.software == expected.software
        stored = {m.metric: m for m in trial.measurements}
        np.testing.assert_array_equal(
            stored["step_time_s"].samples, expected.samples["step_time_s"]
        )
        assert stored["step_time_s"].n == 100, "the summary leaves the warm-up out"
        steady = expected.samples["step_time_s"][20:]
        assert stored["step_time_s"].median == pytest.approx(np.median(steady), rel=1e-15)
        assert stored["peak_rss_bytes"].samples.dtype == np.int64
        assert list(stored["peak_rss_bytes"].samples) == [2**40 + 1]
    detail = reading.run_detail(session, job.run_id)
    assert [file.name for trial in detail.trials for file in trial.artifacts] == ["log.txt"] * 2


def test_operators_of_a_static_trial_are_stored(session: Session, job: models.Job):
    counted = {"aten.mm": 87, "c10d._allgather_base_": 2**60}
    for operators in (counted, {}):
        result = replace(factories.trial(Role.BASELINE), operators=operators)
        recording.record_solo(session, job, case_id(job), result)
    session.expire_all()
    stored = [trial.operators for trial in results.solo_trials(session, job.id, case_id(job))]
    assert counted in stored
    assert None in stored


def test_trials_belong_to_their_sides(session: Session, job: models.Job):
    record(session, job, factories.pair())
    shas = {trial.role: trial.side.revision.sha for trial in results.trials(session, job.id)}
    assert shas == {Role.BASELINE: "a" * 40, Role.CANDIDATE: "b" * 40}


def test_a_clear_slowdown_is_a_regression(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.10, 3))
    assert judged(session, job) == {
        "step_time_s": Verdict.REGRESSION,
        "steps_per_s": Verdict.REGRESSION,
    }
    rows = {row.metric: row for row in results.comparisons(session, [job.id])}
    row = rows["step_time_s"]
    assert row.effect == pytest.approx(np.log(1.10), abs=0.005)
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.effect < row.high
    assert (row.num_pairs, row.decided_at, row.is_gating) == (3, 3, True)
    assert row.baseline_value == pytest.approx(0.01, rel=0.05)
    assert row.candidate_value == pytest.approx(0.011, rel=0.05)
    assert [look.num_pairs for look in row.looks] == [3]
    assert row.looks[0].verdict is Verdict.REGRESSION
    assert row.algorithm == "paired-sequential"
    assert row.inputs == [str(pair.id) for pair in results.pairs(session, job.id, case_id(job))]


def test_swapping_the_sides_turns_the_verdict(session: Session, job: models.Job):
    record(session, job, *pairs_with(-0.10, 3))
    assert set(judged(session, job).values()) == {Verdict.IMPROVEMENT}


def test_equal_sides_are_no_change(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.0, 5))
    assert set(judged(session, job).values()) == {Verdict.NO_CHANGE}


def test_two_pairs_are_no_verdict(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.5, 2))
    assert set(judged(session, job).values()) == {Verdict.INCONCLUSIVE}


def test_an_invalid_pair_counts_for_nothing(session: Session, job: models.Job):
    broken = factories.pair(
        invalid=Failure(reason=FailureReason.CRASHED, detail="candidate: Rank 1 exited with 3."),
        trials={
            Role.BASELINE: factories.trial(Role.BASELINE),
            Role.CANDIDATE: factories.failed_trial(Role.CANDIDATE),
        },
    )
    record(session, job, broken, *pairs_with(0.10, 3))
    assert set(judged(session, job).values()) == {Verdict.REGRESSION}
    rows = results.comparisons(session, [job.id])
    assert {row.num_pairs for row in rows} == {3}
    detail = reading.run_detail(session, job.run_id)
    assert [bool(pair.effects) for pair in detail.pairs] == [False, True, True, True]
    assert detail.pairs[0].invalid_reason is FailureReason.CRASHED
    assert [trace.pair for trace in reading.traces(session, job.run_id)] == [1]
    assert [trace.pair for trace in reading.traces(session, job.run_id, 3)] == [3]
    assert [trace.pair for trace in reading.traces(session, job.run_id, 0)] == [1], "0 is invalid"


def test_turns_of_several_steps_are_compared_as_turns(session: Session, job: models.Job):
    """One side has a turn and a bit more than the other."""
    steps = {Role.BASELINE: [0.01] * 124, Role.CANDIDATE: [0.02, 0.012, 0.01, 0.01] * 30}
    trials = {
        role: factories.trial(role, step_times=times, num_warmup_steps=20)
        for role, times in steps.items()
    }
    pair = factories.pair(trials=trials, steps_per_turn=4)
    record(session, job, pair)
    judged(session, job)
    (row,) = (r for r in results.comparisons(session, [job.id]) if r.metric == "step_time_s")
    assert row.effect == pytest.approx(np.log(0.052 / 0.04))


def test_separate_launches_are_compared_by_their_medians(session: Session, job: models.Job):
    trials = {
        Role.BASELINE: factories.trial(Role.BASELINE, step_times=[0.01] * 90),
        Role.CANDIDATE: factories.trial(Role.CANDIDATE, step_times=[0.02] * 150),
    }
    record(session, job, factories.pair(trials=trials, arrangement=Arrangement.ABBA))
    judged(session, job)
    (row,) = (r for r in results.comparisons(session, [job.id]) if r.metric == "step_time_s")
    assert row.effect == pytest.approx(np.log(2))


def test_device_memory_is_judged_from_solo_trials(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.0, 3))
    job = runs_db.job(session, job.id)
    for number in range(3):
        for role, peak in {Role.BASELINE: 2**33, Role.CANDIDATE: 2**34}.items():
            trial = factories.trial(
                role,
                started_at=factories.NOON + timedelta(seconds=number),
                samples={"peak_allocated_bytes": np.array([peak], dtype=np.int64)},
            )
            recording.record_solo(session, job, case_id(job), trial)
    session.expire_all()
    assert judged(session, job)["peak_allocated_bytes"] is Verdict.REGRESSION


def test_a_gating_metric_that_nobody_measured_is_missing(session: Session, job: models.Job):
    """A trainer that stopped to record its memory must not pass for one that needs no more."""
    rule = Rule(min_effect=0.05, gate=True)
    metrics = {**POLICY.metrics, "peak_rss_bytes": rule, "tokens_per_s": rule}
    record(session, job, *pairs_with(0.0, 5))
    found = by_metric(session, job, Policy(metrics=metrics))
    assert found["peak_rss_bytes"].verdict is Verdict.MISSING
    assert found["peak_rss_bytes"].reasons == (
        "Neither side reported its peak_rss_bytes in a valid pair.",
    )
    assert "tokens_per_s" not in found, "steps_per_s stands in for it"
    assert {row.metric for row in results.comparisons(session, [job.id])} == set(found)


def test_a_rule_for_what_only_some_workloads_tell_asks_nothing_of_others(
    session: Session, job: models.Job
):
    told = {"busbw_bytes_per_s": Rule(min_effect=0.1, gate=True)}
    record(session, job, *pairs_with(0.0, 5))
    found = by_metric(session, job, Policy(metrics={**POLICY.metrics, **told}))
    assert found.keys().isdisjoint(told)


@pytest.mark.parametrize("silent", list(Role))
@pytest.mark.parametrize(
    ("arrangement", "metric", "where"),
    [
        (Arrangement.LOCKSTEP, "peak_rss_bytes", "valid pair"),
        (Arrangement.LOCKSTEP, "peak_allocated_bytes", "solo trial"),
        (Arrangement.ABBA, "peak_allocated_bytes", "solo trial"),
    ],
)
def test_what_only_one_side_reports_is_missing_whether_or_not_the_policy_names_it(
    session: Session,
    job: models.Job,
    arrangement: Arrangement,
    metric: str,
    where: str,
    silent: Role,
):
    (other,) = set(Role) - {silent}
    one_sided = reporting({other: {metric: 2.0**30}}, *pairs_with(0.0, 5))
    record(session, job, *(replace(pair, arrangement=arrangement) for pair in one_sided))
    alone = factories.trial(other, samples={metric: np.array([2.0**30])})
    recording.record_solo(session, runs_db.job(session, job.id), case_id(job), alone)
    found = by_metric(session, job, Policy())[metric]
    assert (found.verdict, found.is_gating) == (Verdict.MISSING, True)
    assert found.reasons == (
        f"The {silent} reported no {metric} in any {where}; the other side did.",
    )


def test_what_does_not_gate_may_be_left_out(session: Session, job: models.Job):
    one_sided = reporting({Role.BASELINE: {"peak_rss_bytes": 2.0**30}}, *pairs_with(0.0, 5))
    record(session, job, *one_sided)
    silenced = Policy(metrics={"peak_rss_bytes": Rule(min_effect=0.05, gate=False)})
    assert "peak_rss_bytes" not in by_metric(session, job, silenced)


def test_device_memory_that_no_solo_trial_told_is_missing(session: Session, job: models.Job):
    """In lock-step both sides share the device: what they report there does not count."""
    told = {role: {"peak_allocated_bytes": 2.0**30} for role in Role}
    record(session, job, *reporting(told, *pairs_with(0.0, 5)))
    assert judged(session, job)["peak_allocated_bytes"] is Verdict.MISSING


@pytest.mark.parametrize("teller", list(Role))
def test_steps_stand_for_throughput_where_only_one_side_tells_its_tokens(
    session: Session, job: models.Job, teller: Role
):
    record(session, job, *reporting({teller: {"tokens_per_s": 9e4}}, *pairs_with(0.10, 3)))
    assert judged(session, job)["steps_per_s"] is Verdict.REGRESSION
    assert Verdict.MISSING not in judged(session, job).values()


def test_what_pairs_decided_outlives_a_later_failure(session: Session, job: models.Job):
    record(session, job, *with_open_memory(0.10))
    judge.record_unmeasured(
        session, job.id, case_id(job), POLICY, Verdict.MISSING, "It is gone.", num_cases=1
    )
    rows = {row.metric: row for row in results.comparisons(session, [job.id])}
    assert {name: row.verdict for name, row in rows.items()} == {
        "step_time_s": Verdict.REGRESSION,
        "steps_per_s": Verdict.REGRESSION,
        "peak_rss_bytes": Verdict.MISSING,
    }
    assert rows["peak_rss_bytes"].reasons == ["It is gone."]
    assert rows["step_time_s"].num_pairs == 3
    assert rows["step_time_s"].looks


def test_the_cases_of_a_run_share_its_error_rate_to_the_end(session: Session, job: models.Job):
    rng = np.random.default_rng(5)
    pairs = [factories.pair(rng, change=change) for change in (0.03, 0.05, 0.034, 0.046, 0.04)]
    record(session, job, *pairs)

    def ended(num_cases: int) -> set[str]:
        judge.record_unmeasured(
            session, job.id, case_id(job), POLICY, Verdict.MISSING, "Gone.", num_cases=num_cases
        )
        return {row.verdict for row in results.comparisons(session, [job.id])}

    assert ended(num_cases=1) == {Verdict.REGRESSION}
    assert ended(num_cases=50) == {Verdict.MISSING}


def comparisons_ever(session: Session, job: models.Job) -> list[models.Comparison]:
    return session.query(models.Comparison).filter_by(job_id=job.id).all()


def test_provisional_comparisons_are_replaced(session: Session, job: models.Job):
    for pair in pairs_with(0.10, 5):
        record(session, job, pair)
        judged(session, job)
    rows = comparisons_ever(session, job)
    assert sorted(row.metric for row in rows) == ["step_time_s", "steps_per_s"]
    assert {row.num_pairs for row in rows} == {5}
    looks = session.query(models.Look).all()
    assert sorted(look.num_pairs for look in looks) == [3, 3, 5, 5]


def test_final_comparisons_become_history(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.10, 3))
    judged(session, job, is_final=True)
    judged(session, job, is_final=True)
    rows = comparisons_ever(session, job)
    assert len(rows) == 4
    assert len(results.comparisons(session, [job.id])) == 2
    assert sum(row.superseded_at is not None for row in rows) == 2
    assert len(reading.run_detail(session, job.run_id).comparisons) == 2


@pytest.mark.parametrize("verdict", [Verdict.MISSING, Verdict.BROKEN, Verdict.INVALID])
@pytest.mark.parametrize("num_pairs", [0, 2])
def test_what_was_not_measured_is_stored_with_its_reason(
    session: Session, job: models.Job, verdict: Verdict, num_pairs: int
):
    record(session, job, *pairs_with(0.0, num_pairs))
    judged(session, job)
    reason = "The baseline does not run."
    judge.record_unmeasured(session, job.id, case_id(job), POLICY, verdict, reason, num_cases=1)
    rows = results.comparisons(session, [job.id])
    assert {row.verdict for row in rows} == {verdict}
    assert {tuple(row.reasons) for row in rows} == {("The baseline does not run.",)}
    assert {row.effect for row in rows} == {None}
    runs_db.finish(session, runs_db.lock(session, job.run_id), Status.FINISHED)
    assert reading.run_summary(session, job.run_id).verdict is verdict


def test_a_finished_run_that_is_judged_anew_gets_the_new_verdict(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.10, 3))
    judged(session, job, is_final=True)
    run = runs_db.lock(session, job.run_id)
    runs_db.finish(session, run, Status.FINISHED)
    assert run.verdict is Verdict.REGRESSION
    lenient = Policy(metrics={"step_time_s": Rule(min_effect=0.5, gate=True)})
    judge.judge_case(session, job.id, case_id(job), lenient, num_cases=1, is_final=True)
    assert run.verdict is Verdict.NO_CHANGE


def test_a_view_holds_what_was_measured(session: Session, job: models.Job):
    record(session, job, *pairs_with(0.10, 3))
    judged(session, job)
    assert reading.run_summary(session, job.run_id).verdict is None, "it is not finished"
    runs_db.finish(session, runs_db.lock(session, job.run_id), Status.FINISHED)
    found = reading.run_detail(session, job.run_id)
    assert found.verdict is Verdict.REGRESSION
    assert found.headline.startswith("Regression: tinylm: step time")
    assert [pair.position for pair in found.pairs] == [0, 1, 2]
    assert all(pair.effects["step_time_s"] > 0 for pair in found.pairs)
    assert sorted((t.pair, t.role) for t in found.trials) == [
        (n, role) for n in range(3) for role in Role
    ]
    assert [environment.num_pairs for environment in found.environments] == [3]
    assert (found.candidate.sha, found.candidate.subject) == ("b" * 40, "Fuse the norm")
    (listed,) = reading.run_list(session).items
    assert asdict(listed) == {name: asdict(found)[name] for name in asdict(listed)}


def test_a_list_of_runs_asks_the_database_a_fixed_number_of_times(sessions: Sessions):
    def statements(num_runs: int) -> int:
        with transaction(sessions, factories.unsent) as session:
            for _ in range(num_runs):
                factories.job(session)
        seen: list[str] = []
        engine = sessions.kw["bind"]
        listener = lambda *arguments: seen.append(arguments[2])  # noqa: E731
        sqlalchemy.event.listen(engine, "before_cursor_execute", listener)
        with sessions() as session:
            reading.run_list(session)
        sqlalchemy.event.remove(engine, "before_cursor_execute", listener)
        return len(seen)

    assert statements(2) == statements(6)


def test_what_does_not_exist(session: Session):
    for read in (reading.run_detail, reading.run_summary, runs_db.job, results.artifact):
        with pytest.raises(NotFound):
            read(session, uuid4())
