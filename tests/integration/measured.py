"""Recorded pairs and what is judged of them, for tests."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import UUID

import numpy as np
from sqlalchemy.orm import Session, object_session

from service.db import models, results
from service.db import runs as runs_db
from service.db.base import Samples
from service.domain import (
    Policy,
    Role,
    Rule,
    Verdict,
)
from service.stats.comparison import MetricComparison
from service.usecases import judge, recording
from service.usecases.recording import PairResult
from tests import factories

POLICY = Policy(metrics={"step_time_s": Rule(min_effect=0.02, gate=True)})


def case_id(job: models.Job) -> UUID:
    session = object_session(job)
    assert session is not None
    return runs_db.job(session, job.id).job_cases[0].case_id


def record(session: Session, job: models.Job, *pairs: PairResult) -> None:
    job = runs_db.job(session, job.id)
    start = len(results.pairs(session, job.id, case_id(job)))
    environment = factories.environment(session, job)
    for position, result in enumerate(pairs, start):
        recording.record_pair(session, job, case_id(job), position, environment, result)
    session.expire_all()


def judged(session: Session, job: models.Job, *, is_final: bool = False) -> dict[str, Verdict]:
    found = judge.judge_case(session, job.id, case_id(job), POLICY, num_cases=1, is_final=is_final)
    return {comparison.metric: comparison.verdict for comparison in found}


def by_metric(session: Session, job: models.Job, policy: Policy) -> dict[str, MetricComparison]:
    found = judge.judge_case(session, job.id, case_id(job), policy, num_cases=1, is_final=False)
    return {comparison.metric: comparison for comparison in found}


def reporting(
    values: Mapping[Role, Mapping[str, float]], *pairs: PairResult
) -> Iterator[PairResult]:
    """The pairs with more that their sides report."""
    for pair in pairs:
        trials = {
            role: replace(trial, samples={**trial.samples, **singles(values.get(role, {}))})
            for role, trial in pair.trials.items()
        }
        yield replace(pair, trials=trials)


def singles(values: Mapping[str, float]) -> dict[str, Samples]:
    return {name: np.array([value]) for name, value in values.items()}


def with_open_memory(change: float) -> Iterator[PairResult]:
    """Three pairs that decide the times, and leave host memory open."""
    for pair, factor in zip(pairs_with(change, 3), (0.8, 1.0, 1.3), strict=True):
        peaks = {Role.BASELINE: 2.0**30, Role.CANDIDATE: factor * 2.0**30}
        yield from reporting({role: {"peak_rss_bytes": peak} for role, peak in peaks.items()}, pair)


def pairs_with(change: float, num_pairs: int, seed: int = 5) -> list[PairResult]:
    rng = np.random.default_rng(seed)
    return [factories.pair(rng, change=change) for _ in range(num_pairs)]
