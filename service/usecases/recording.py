"""What a worker found out, as plain values, and how it is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from service.db import models
from service.db.base import Samples
from service.domain import Arrangement, FailureReason, Role
from service.stats.summary import summarize


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file that lies in the artifact store."""

    kind: str
    name: str
    path: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """One launch of one side. `samples` holds a metric's values; those of step_time_s are per
    step, warm-up included, the maximum over ranks; other metrics have one value.
    """

    trial_id: UUID
    role: Role
    started_at: datetime
    finished_at: datetime
    command: str
    software: Mapping[str, Any]
    exit_code: int | None = None
    failure_reason: FailureReason | None = None
    failure_detail: str | None = None
    num_warmup_steps: int = 0
    samples: Mapping[str, Samples] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()


@dataclass(frozen=True, kw_only=True)
class PairResult:
    """One pair: its two trials, or what made it invalid."""

    arrangement: Arrangement
    first: Role
    steps_per_turn: int
    started_at: datetime
    finished_at: datetime
    trials: Mapping[Role, TrialResult]
    invalid_reason: FailureReason | None = None
    invalid_detail: str | None = None


def record_pair(
    session: Session,
    job: models.Job,
    case_id: UUID,
    position: int,
    environment: models.Environment,
    result: PairResult,
) -> models.Pair:
    """Store a pair with its trials, measurements and artifacts."""
    values = {k: v for k, v in vars(result).items() if k != "trials"}
    pair = models.Pair(
        job_id=job.id,
        case_id=case_id,
        environment_id=environment.id,
        position=position,
        **values,
    )
    session.add(pair)
    session.flush()
    for trial in result.trials.values():
        record_trial(session, job, case_id, trial, pair_id=pair.id)
    return pair


def record_trial(
    session: Session,
    job: models.Job,
    case_id: UUID,
    result: TrialResult,
    pair_id: UUID | None = None,
) -> None:
    """Store a trial; a solo trial where `pair_id` is None."""
    side_id = {
        Role.BASELINE: job.run.baseline_side_id,
        Role.CANDIDATE: job.run.candidate_side_id,
    }[result.role]
    values = {
        k: v for k, v in vars(result).items() if k not in ("trial_id", "samples", "files")
    } | {"software": dict(result.software)}
    trial = models.Trial(
        id=result.trial_id,
        job_id=job.id,
        case_id=case_id,
        side_id=side_id,
        pair_id=pair_id,
        **values,
    )
    session.add(trial)
    session.flush()
    for metric, samples in result.samples.items():
        warmup = result.num_warmup_steps if metric == "step_time_s" else 0
        session.add(
            models.Measurement(
                trial_id=trial.id,
                metric=metric,
                samples=samples,
                **asdict(summarize(samples[warmup:])),
            )
        )
    for file in result.files:
        session.add(models.Artifact(run_id=job.run_id, trial_id=trial.id, **asdict(file)))
