"""Measures the cases of a job, pair by pair, until every gating metric is settled."""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from runners import environment
from runners.context import Worker
from runners.lease import Heartbeat
from runners.library import library
from runners.pair import Bench, Limits, measure_abba, measure_lockstep, measure_solo
from runners.sides import prepare_sides
from service import domain
from service.db import catalog, leases, models, results
from service.db import runs as runs_db
from service.db.session import transaction
from service.domain import Arrangement, FailureReason, Policy, Role, Verdict
from service.errors import WorkerStopping
from service.stats.compare import MetricComparison, is_settled
from service.stats.exact import MIN_TRIALS
from service.usecases import judge, recording
from service.usecases.recording import PairResult, TrialResult

logger = logging.getLogger(__name__)

_MAX_INVALID_PAIRS = 3
# Failures of the program. The others say that it could not be measured, which gates nothing.
_BREAKS = {
    FailureReason.CRASHED,
    FailureReason.KILLED,
    FailureReason.OUT_OF_MEMORY,
    FailureReason.STALLED,
    FailureReason.DEADLINE,
    FailureReason.NAN_LOSS,
}


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One case to measure."""

    case_id: UUID
    case: domain.Case
    arrangement: Arrangement
    unmeasurable: str | None


class Measuring:
    """A claimed job being measured: its cases in turn, each pair by pair."""

    def __init__(self, worker: Worker, claim: leases.Claim, heartbeat: Heartbeat) -> None:
        self._worker, self._claim, self._heartbeat = worker, claim, heartbeat
        with transaction(worker.sessions, worker.send) as session:
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
            )
            for row in self._job.job_cases
        ]

    def run(self) -> None:
        """Measure every case in turn."""
        for work in self._work:
            if work.unmeasurable is not None:
                self._unmeasured(work, Verdict.MISSING, work.unmeasurable)
        measurable = [work for work in self._work if work.unmeasurable is None]
        if measurable:
            bench = self._bench()
            for work in measurable:
                self._case(bench, work)

    def _check(self) -> None:
        """Raises when the measurement must stop."""
        if self._worker.stopping.is_set():
            raise WorkerStopping("The worker stops.")
        self._heartbeat.check()

    def _bench(self) -> Bench:
        settings = self._worker.settings
        return Bench(
            sides=prepare_sides(self._job.run, self._worker, self._check),
            library=library(self._worker.data_dir),
            limits=Limits(
                start_s=settings.start_s,
                stall_s=settings.stall_s,
                kill_grace_s=settings.kill_grace_s,
            ),
            store=self._worker.store(self._claim.run_id),
            check=self._check,
        )

    def _case(self, bench: Bench, work: _Work) -> None:
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
            if result.invalid_reason is not None:
                invalid.append(result.invalid_detail)
                if self._is_explained(bench, work, result):
                    return
        if position == 0:
            reason = "The budget of device hours was spent before this case was measured."
            self._unmeasured(work, Verdict.MISSING, reason)
        elif len(invalid) == position:
            reason = f"All {position} pairs were invalid, the last: {invalid[-1]}"
            self._unmeasured(work, Verdict.INVALID, reason)
        elif self._job.run.cluster.devices_per_node and work.arrangement is Arrangement.LOCKSTEP:
            self._device_memory(bench, work)

    def _earlier_pairs(self, work: _Work) -> Sequence[models.Pair]:
        """Pairs that an attempt recorded which did not come to its end."""
        with transaction(self._worker.sessions, self._worker.send) as session:
            return results.pairs(session, self._job.id, work.case_id)

    def _is_settled(self, work: _Work) -> bool:
        """Whether the pairs of an earlier attempt already decide."""
        with transaction(self._worker.sessions, self._worker.send) as session:
            leases.fence(session, self._claim)
            return is_settled(self._judge(session, work))

    def _measure_pair(self, bench: Bench, work: _Work, position: int) -> PairResult:
        """The pair at `position`. Sides start first in balanced order: AB, BA, BA, AB, ..."""
        first = Role.BASELINE if position % 4 in (0, 3) else Role.CANDIDATE
        if work.arrangement is Arrangement.ABBA:
            return measure_abba(bench, work.case, first)
        seed = random.Random(f"{self._job.run.seed} {work.case.key} {position}").getrandbits(32)
        return measure_lockstep(bench, work.case, first, seed)

    def _record(self, work: _Work, position: int, result: PairResult) -> bool:
        """Store a pair and judge anew; whether every gating metric is settled."""
        facts = environment.facts()
        soft = facts.soft | {"arrangement": work.arrangement.value}
        cost_s = (result.finished_at - result.started_at).total_seconds() * self._num_devices(work)
        with transaction(self._worker.sessions, self._worker.send) as session:
            leases.fence(session, self._claim)
            job = runs_db.job(session, self._job.id)
            stored = catalog.environment(session, job.run.cluster_id, facts.hard, soft)
            recording.record_pair(session, job, work.case_id, position, stored, result)
            job.device_s += cost_s
            comparisons = self._judge(session, work)
        logger.info(
            "job %s, %s, pair %d: %s",
            self._job.id,
            work.case.name,
            position,
            result.invalid_detail or "valid",
        )
        return is_settled(comparisons)

    def _is_explained(self, bench: Bench, work: _Work, pair: PairResult) -> bool:
        """Try the side that failed in a pair once alone; whether that ends the case.

        Candidate fails again and the baseline runs: `broken`. Baseline fails again: `missing`.
        """
        failed = [
            role
            for role, trial in pair.trials.items()
            if trial.failure_reason not in (None, FailureReason.PEER_FAILED)
        ]
        if Role.BASELINE in failed:
            alone = self._solo(bench, work, Role.BASELINE)
            if alone.failure_reason is not None:
                reason = f"The baseline does not run: {alone.failure_detail}"
                self._unmeasured(work, Verdict.MISSING, reason)
                return True
        if Role.CANDIDATE not in failed:
            return False
        alone = self._solo(bench, work, Role.CANDIDATE)
        if alone.failure_reason is None:
            return False
        baseline = self._solo(bench, work, Role.BASELINE)
        if baseline.failure_reason is not None:
            reason = f"The baseline does not run: {baseline.failure_detail}"
            self._unmeasured(work, Verdict.MISSING, reason)
        elif alone.failure_reason in _BREAKS:
            reason = f"The candidate failed in a pair and alone: {alone.failure_detail}"
            self._unmeasured(work, Verdict.BROKEN, reason)
        else:
            reason = f"The candidate cannot be measured: {alone.failure_detail}"
            self._unmeasured(work, Verdict.INVALID, reason)
        return True

    def _solo(self, bench: Bench, work: _Work, role: Role) -> TrialResult:
        """A solo trial, stored."""
        result = measure_solo(bench, work.case, role)
        cost_s = (result.finished_at - result.started_at).total_seconds() * self._num_devices(work)
        with transaction(self._worker.sessions, self._worker.send) as session:
            leases.fence(session, self._claim)
            job = runs_db.job(session, self._job.id)
            recording.record_trial(session, job, work.case_id, result)
            job.device_s += cost_s
        return result

    def _device_memory(self, bench: Bench, work: _Work) -> None:
        """Solo trials for peak device memory: in lock-step two copies share the device."""
        for _ in range(MIN_TRIALS):
            for role in Role:
                self._solo(bench, work, role)
        with transaction(self._worker.sessions, self._worker.send) as session:
            leases.fence(session, self._claim)
            self._judge(session, work)

    def _judge(self, session: Session, work: _Work) -> list[MetricComparison]:
        """Compare on all pairs so far; the cases of the run share its error rate."""
        num_cases = sum(other.unmeasurable is None for other in self._work)
        return judge.judge_case(
            session, self._job.id, work.case_id, self._policy, num_cases=num_cases, is_final=False
        )

    def _unmeasured(self, work: _Work, verdict: Verdict, reason: str) -> None:
        with transaction(self._worker.sessions, self._worker.send) as session:
            leases.fence(session, self._claim)
            judge.record_unmeasured(
                session, self._job.id, work.case_id, self._policy, verdict, reason
            )

    def _num_devices(self, work: _Work) -> int:
        """What a second of this case costs: its devices, or the one node of a CPU cluster."""
        return work.case.world_size if self._job.run.cluster.devices_per_node else 1

    def _is_over_budget(self) -> bool:
        if self._policy.budget_device_hours is None:
            return False
        with transaction(self._worker.sessions, self._worker.send) as session:
            spent_s = runs_db.job(session, self._job.id).device_s
        return spent_s >= self._policy.budget_device_hours * 3600
