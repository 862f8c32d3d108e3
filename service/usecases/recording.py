"""What a worker found out, as plain values, and how it is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from service import domain
from service.db import models
from service.db.base import Samples
from service.domain import Arrangement, Failure, Role
from service.metrics import metric_named
from service.stats.pairs import effects
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
    """One launch of one side. `samples` holds a metric's values: of some one per step, warm-up
    included, of the worst rank; other metrics have one value. `operators` are the calls of each
    that a static trial counted.
    """

    trial_id: UUID
    role: Role
    started_at: datetime
    finished_at: datetime
    command: str
    software: Mapping[str, Any]
    exit_code: int | None = None
    failure: Failure | None = None
    num_warmup_steps: int = 0
    samples: Mapping[str, Samples] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()

    @property
    def steady(self) -> dict[str, Samples]:
        """Samples without the warm-up."""
        return {
            name: values[self.num_warmup_steps :] if metric_named(name).is_per_step else values
            for name, values in self.samples.items()
        }


@dataclass(frozen=True, kw_only=True)
class PairResult:
    """One pair: its two trials, or what made it invalid."""

    arrangement: Arrangement
    first: Role
    steps_per_turn: int
    started_at: datetime
    finished_at: datetime
    trials: Mapping[Role, TrialResult]
    invalid: Failure | None = None

    @property
    def effects(self) -> dict[str, float]:
        """d per metric; none where the pair is invalid."""
        if self.invalid is not None:
            return {}
        baseline, candidate = (self.trials[role].steady for role in Role)
        return effects(self.arrangement, self.steps_per_turn, baseline, candidate)


def record_pair(
    session: Session,
    job: models.Job,
    case_id: UUID,
    position: int,
    environment: models.Environment,
    result: PairResult,
) -> models.Pair:
    """Store a pair with its trials, measurements and artifacts, and what it cost."""
    pair = models.Pair(
        job_id=job.id,
        case_id=case_id,
        environment_id=environment.id,
        position=position,
        arrangement=result.arrangement,
        first=result.first,
        steps_per_turn=result.steps_per_turn,
        effects=result.effects,
        invalid_reason=result.invalid.reason if result.invalid else None,
        invalid_detail=result.invalid.detail if result.invalid else None,
        started_at=result.started_at,
        finished_at=result.finished_at,
    )
    session.add(pair)
    session.flush()
    for trial in result.trials.values():
        _add_trial(session, job, case_id, trial, pair.id)
    _add_progress(job, case_id, result)
    return pair


def record_solo(session: Session, job: models.Job, case_id: UUID, result: TrialResult) -> None:
    """Store a solo trial, and what it cost."""
    _add_trial(session, job, case_id, result, None)
    _add_progress(job, case_id, result)


def record_log(session: Session, run_id: UUID, file: StoredFile) -> None:
    """Store a log that belongs to the run as a whole."""
    session.add(models.Artifact(run_id=run_id, **asdict(file)))


def _add_progress(job: models.Job, case_id: UUID, result: PairResult | TrialResult) -> None:
    """Device seconds spent (node seconds on a CPU cluster); and the job is no worker's bane."""
    row = next(row.case for row in job.job_cases if row.case_id == case_id)
    num_processes = domain.case_from_json(row.spec).num_processes
    num_devices = num_processes if job.run.cluster.devices_per_node else 1
    job.device_s += (result.finished_at - result.started_at).total_seconds() * num_devices
    job.num_losses = 0


def _add_trial(
    session: Session, job: models.Job, case_id: UUID, result: TrialResult, pair_id: UUID | None
) -> None:
    sides = {
        Role.BASELINE: job.run.baseline_side_id,
        Role.CANDIDATE: job.run.candidate_side_id,
    }
    trial = models.Trial(
        id=result.trial_id,
        job_id=job.id,
        case_id=case_id,
        side_id=sides[result.role],
        pair_id=pair_id,
        role=result.role,
        failure_reason=result.failure.reason if result.failure else None,
        failure_detail=result.failure.detail if result.failure else None,
        exit_code=result.exit_code,
        command=result.command,
        software=dict(result.software),
        operators=dict(result.operators) or None,
        num_warmup_steps=result.num_warmup_steps,
        started_at=result.started_at,
        finished_at=result.finished_at,
    )
    session.add(trial)
    session.flush()
    for metric, steady in result.steady.items():
        summary = asdict(summarize(steady))
        row = models.Measurement(
            trial_id=trial.id, metric=metric, samples=result.samples[metric], **summary
        )
        session.add(row)
    for file in result.files:
        session.add(models.Artifact(run_id=job.run_id, trial_id=trial.id, **asdict(file)))
