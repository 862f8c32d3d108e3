"""A worker whose pairs and solo trials are made up, for tests of what it makes of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from runners import measure
from runners.bench import Bench
from runners.execute import execute_jobs
from runners.worker import Worker
from service.config import Settings
from service.db import models, reading
from service.db import runs as runs_db
from service.db.session import Message, Sessions, transaction
from service.db.views import RunDetail
from service.domain import Case, Failure, FailureReason, Role, Verdict
from service.stats.diagnosis import Diagnosis
from service.usecases.recording import PairResult, TrialResult
from tests import factories
from tests.integration.measured import POLICY


class Lab:
    """A worker whose pairs and solo trials are made up."""

    def __init__(self, sessions: Sessions, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions = sessions
        self.sent: list[Message] = []
        settings = Settings(data_dir=folder, lease_s=5.0)
        with transaction(sessions, self.sent.append) as session:
            slot_id = factories.slot_id(session)
        self.worker = Worker(
            name="w", settings=settings, sessions=sessions, send=self.sent.append, slot_id=slot_id
        )
        self.pairs: list[PairResult] = []
        self.solo: dict[Role, FailureReason | None] = dict.fromkeys(Role)
        self.firsts: list[Role] = []
        self.solos: list[Role] = []
        monkeypatch.setattr(measure, "prepare_sides", lambda _run, _worker, _check: {})
        self.measure_pair: Callable[[Bench], PairResult] = lambda _bench: self.pairs.pop(0)
        self.seeds: list[int] = []
        monkeypatch.setattr(measure, "measure_lockstep", self.lockstep)
        monkeypatch.setattr(measure, "measure_abba", lambda b, c, first: self.next_pair(b, first))
        monkeypatch.setattr(measure, "measure_solo", self.measure_solo)
        self.diagnosis = Diagnosis(cause="aten::mm: 20 more calls a step, +3.1 ms")
        self.num_diagnoses = 0
        monkeypatch.setattr(measure, "profile_sides", self.profile_sides)

    def lockstep(self, bench: Bench, _case: Case, first: Role, seed: int) -> PairResult:
        self.seeds.append(seed)
        return self.next_pair(bench, first)

    def next_pair(self, bench: Bench, first: Role) -> PairResult:
        bench.check()
        self.firsts.append(first)
        return replace(self.measure_pair(bench), first=first)

    def measure_solo(self, _bench: Bench, _case: Case, role: Role) -> TrialResult:
        self.solos.append(role)
        reason = self.solo[role]
        return factories.trial(role) if reason is None else factories.failed_trial(role, reason)

    def profile_sides(
        self, bench: Bench, _case: Case
    ) -> tuple[Mapping[Role, TrialResult], Diagnosis]:
        bench.check()
        self.num_diagnoses += 1
        return {role: replace(self.instant(role), samples={}) for role in Role}, self.diagnosis

    @staticmethod
    def instant(role: Role) -> TrialResult:
        trial = factories.trial(role)
        return replace(trial, finished_at=trial.started_at)

    def job(self, **values) -> UUID:
        with transaction(self.sessions, self.sent.append) as session:
            return factories.job(session, **{"policy": POLICY, **values}).id

    def measure(self, job_id: UUID) -> RunDetail:
        execute_jobs(self.worker)
        return self.detail(job_id)

    def detail(self, job_id: UUID) -> RunDetail:
        with self.sessions() as session:
            return reading.run_detail(session, runs_db.job(session, job_id).run_id)

    def slots_are_free(self) -> bool:
        with self.sessions() as session:
            return all(slot.job_id is None for slot in session.query(models.Slot))


def invalid(role: Role, reason: FailureReason = FailureReason.CRASHED) -> PairResult:
    """A pair that the failure of one side made invalid."""
    trials = {r: factories.failed_trial(r, FailureReason.PEER_FAILED) for r in Role}
    trials[role] = factories.failed_trial(role, reason)
    detail = f"{role}: Rank 1 exited with 3."
    return factories.pair(trials=trials, invalid=Failure(reason=reason, detail=detail))


def raising(error: Exception) -> Callable[[Bench], PairResult]:
    def measure(_bench: Bench) -> PairResult:
        raise error

    return measure


def stopping_after(lab: Lab, pairs: list[PairResult]) -> Callable[[Bench], PairResult]:
    """Measures these pairs; then the worker is told to stop."""

    def measure(bench: Bench) -> PairResult:
        if not pairs:
            lab.worker.stopping.set()
            bench.check()
        return pairs.pop(0)

    return measure


def verdicts(run: RunDetail) -> set[Verdict]:
    return {comparison.verdict for comparison in run.comparisons}


def reasons(run: RunDetail) -> str:
    return " ".join(reason for comparison in run.comparisons for reason in comparison.reasons)
