"""Measures the cases of a job, pair by pair, until every gating metric is settled."""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from runners import environment
from runners.bench import Bench
from runners.diagnosis import profile_sides
from runners.library import library
from runners.lockstep import measure_lockstep
from runners.pair import first_side, measure_abba, measure_solo
from runners.sides import prepare_sides
from runners.spec import Limits
from runners.worker import Worker
from service import domain, plugins
from service.db import catalog, leases, models, results
from service.db import runs as runs_db
from service.domain import Arrangement, Failure, FailureReason, Kind, Policy, Role, Verdict
from service.stats.comparison import MetricComparison, is_settled
from service.stats.exact import MIN_TRIALS
from service.stats.failures import verdict_of_failures
from service.usecases import diagnosing, judge, recording
from service.usecases.recording import PairResult

logger = logging.getLogger(__name__)

_MAX_INVALID_PAIRS = 3
_OVER_BUDGET = "The budget of device hours was spent before this case was measured."


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One case to measure."""

    case_id: UUID
    case: domain.Case
    arrangement: Arrangement
    unmeasurable: str | None
    is_finished: bool


class Measuring:
    """A claimed job being measured: its cases in turn, each pair by pair or, if static, at once.

    It may be taken up where an earlier claim ended: recorded pairs count, finished cases stand.
    """

    def __init__(self, worker: Worker, claim: leases.Claim, check: Callable[[], None]) -> None:
        self._worker, self._claim, self._check = worker, claim, check
        with worker.transaction() as session:
            self._job = runs_db.job(session, claim.job_id)
        run = self._job.run
        assert run.policy is not None
        self._policy: Policy = domain.policy_from_json(run.policy)
        self._work = [
            _Work(
                case_id=row.case_id,
                case=(case := domain.case_from_json(row.case.spec)),
                arrangement=case.arrangement or run.cluster.arrangement,
                unmeasurable=row.unmeasurable,
                is_finished=row.finished_at is not None,
            )
            for row in self._job.job_cases
        ]
        # The cases of the run share its error rate; those that are counted have none.
        self._num_cases = sum(
            work.unmeasurable is None and work.case.kind is Kind.MEASURED for work in self._work
        )

    def run(self) -> None:
        """Measure every case that is not finished. Raises what `check` raises."""
        todo = [work for work in self._work if not work.is_finished]
        for work in todo:
            if work.unmeasurable is not None:
                self._unmeasured(work, Verdict.MISSING, work.unmeasurable)
        measurable = [work for work in todo if work.unmeasurable is None]
        if measurable:
            bench = self._bench()
            for work in measurable:
                if work.case.kind is Kind.STATIC:
                    self._count(bench, work)
                else:
                    self._measure(bench, work)

    def _bench(self) -> Bench:
        settings = self._worker.settings
        return Bench(
            sides=prepare_sides(self._job.run, self._worker, self._check),
            launcher=plugins.load("runners.launchers", self._job.run.cluster.launcher),
            library=library(self._worker.data_dir),
            limits=Limits(
                start_s=settings.start_s,
                stall_s=settings.stall_s,
                kill_grace_s=settings.kill_grace_s,
            ),
            artifacts=self._worker.artifacts(self._claim.run_id),
            slot_id=self._worker.slot_id,
            check=self._check,
            account=self._worker.account,
        )

    def _count(self, bench: Bench, work: _Work) -> None:
        """Count both sides of a case, each in one solo trial, and compare the counts."""
        self._check()
        if self._is_over_budget():
            self._unmeasured(work, Verdict.MISSING, _OVER_BUDGET)
            return
        baseline, candidate = (self._solo(bench, work, role) for role in Role)
        found = verdict_of_failures(baseline, candidate)
        if found is not None:
            self._unmeasured(work, *found)
            return
        with self._writing() as session:
            self._judge(session, work)
            runs_db.finish_case(session, self._job.id, work.case_id)

    def _measure(self, bench: Bench, work: _Work) -> None:
        """Measure pairs of a case until it is settled or its means are spent."""
        pairs = self._earlier_pairs(work)
        position = len(pairs)
        invalid = [pair.invalid_detail for pair in pairs if pair.invalid_reason is not None]
        is_settled_now = bool(pairs) and self._is_settled(work)
        while not is_settled_now and position - len(invalid) < self._policy.looks[-1]:
            if len(invalid) >= _MAX_INVALID_PAIRS or self._is_over_budget():
                break
            self._check()
            result = self._measure_pair(bench, work, position)
            is_settled_now = self._record(work, position, result)
            position += 1
            if result.invalid is not None:
                invalid.append(result.invalid.detail)
                if self._is_explained(bench, work, result):
                    return
        if position == 0:
            self._unmeasured(work, Verdict.MISSING, _OVER_BUDGET)
        elif len(invalid) == position:
            reason = f"All {position} pairs were invalid, the last: {invalid[-1]}"
            self._unmeasured(work, Verdict.INVALID, reason)
        else:
            if self._job.run.cluster.devices_per_node and work.arrangement is Arrangement.LOCKSTEP:
                self._device_memory(bench, work)
            self._diagnose(bench, work)
            with self._writing() as session:
                runs_db.finish_case(session, self._job.id, work.case_id)

    def _diagnose(self, bench: Bench, work: _Work) -> None:
        """Ask why a case got slower, if it did and the budget allows."""
        with self._worker.transaction() as session:
            is_called_for = diagnosing.is_called_for(session, self._job.id, work.case_id)
        if not is_called_for or self._is_over_budget():
            return
        self._check()
        trials, diagnosis = profile_sides(bench, work.case)
        with self._writing() as session:
            job = runs_db.job(session, self._job.id)
            diagnosing.record(session, job, work.case_id, trials, diagnosis)
        logger.info("job %s, %s: %s", job.id, work.case.name, diagnosis.cause or diagnosis.reason)

    def _earlier_pairs(self, work: _Work) -> Sequence[models.Pair]:
        """Pairs that an attempt recorded which did not come to its end."""
        with self._worker.transaction() as session:
            return results.pairs(session, self._job.id, work.case_id)

    def _is_settled(self, work: _Work) -> bool:
        """Whether the pairs of an earlier attempt already decide."""
        with self._writing() as session:
            return is_settled(self._judge(session, work))

    def _measure_pair(self, bench: Bench, work: _Work, position: int) -> PairResult:
        first = first_side(position)
        if work.arrangement is Arrangement.ABBA:
            return measure_abba(bench, work.case, first)
        seed = random.Random(f"{self._job.run.seed} {work.case.key} {position}").getrandbits(32)
        return measure_lockstep(bench, work.case, first, seed)

    def _record(self, work: _Work, position: int, result: PairResult) -> bool:
        """Store a pair and judge anew; whether every gating metric is settled."""
        facts = environment.facts()
        soft = facts.soft | {"arrangement": work.arrangement.value}
        with self._writing() as session:
            job = runs_db.job(session, self._job.id)
            stored = catalog.environment(session, job.cluster_id, facts.hard, soft)
            recording.record_pair(session, job, work.case_id, position, stored, result)
            comparisons = self._judge(session, work)
        state = "valid" if result.invalid is None else result.invalid.detail
        logger.info("job %s, %s, pair %d: %s", self._job.id, work.case.name, position, state)
        return is_settled(comparisons)

    def _is_explained(self, bench: Bench, work: _Work, pair: PairResult) -> bool:
        """Try a side that failed in a pair once alone; whether that ends the case."""
        failed = [
            role
            for role, trial in pair.trials.items()
            if trial.failure and trial.failure.reason is not FailureReason.PEER_FAILED
        ]
        baseline = candidate = None
        if Role.BASELINE in failed:
            baseline = self._solo(bench, work, Role.BASELINE)
        if Role.CANDIDATE in failed and baseline is None:
            candidate = self._solo(bench, work, Role.CANDIDATE)
            if candidate is not None and Role.BASELINE not in failed:
                baseline = self._solo(bench, work, Role.BASELINE)
        found = verdict_of_failures(baseline, candidate)
        if found is not None:
            self._unmeasured(work, *found)
        return found is not None

    def _solo(self, bench: Bench, work: _Work, role: Role) -> Failure | None:
        """How a solo trial failed; it is stored."""
        result = measure_solo(bench, work.case, role)
        with self._writing() as session:
            job = runs_db.job(session, self._job.id)
            recording.record_solo(session, job, work.case_id, result)
        return result.failure

    def _device_memory(self, bench: Bench, work: _Work) -> None:
        """Solo trials for peak device memory: in lock-step two copies share the device."""
        for _ in range(MIN_TRIALS):
            for role in Role:
                self._solo(bench, work, role)
        with self._writing() as session:
            self._judge(session, work)

    def _judge(self, session: Session, work: _Work) -> list[MetricComparison]:
        """Compare on all pairs so far."""
        return judge.judge_case(
            session,
            self._job.id,
            work.case_id,
            self._policy,
            num_cases=self._num_cases,
            is_final=False,
        )

    def _unmeasured(self, work: _Work, verdict: Verdict, reason: str) -> None:
        """End a case; `verdict` is that of every metric which its pairs leave open."""
        with self._writing() as session:
            judge.record_unmeasured(
                session,
                self._job.id,
                work.case_id,
                self._policy,
                verdict,
                reason,
                num_cases=self._num_cases,
            )
            runs_db.finish_case(session, self._job.id, work.case_id)

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        """A transaction of the job's owner. Raises LeaseLost."""
        with self._worker.transaction() as session:
            leases.fence(session, self._claim)
            yield session

    def _is_over_budget(self) -> bool:
        if self._policy.budget_device_hours is None:
            return False
        with self._worker.transaction() as session:
            spent_s = runs_db.job(session, self._job.id).device_s
        return spent_s >= self._policy.budget_device_hours * 3600
