"""When to ask why a case got slower, and how the answer is stored."""

from collections.abc import Mapping
from dataclasses import asdict
from uuid import UUID

from sqlalchemy.orm import Session

from service.db import models, results
from service.domain import Role, Verdict
from service.metrics import Method, metric_named
from service.stats.diagnosis import Diagnosis
from service.usecases import recording
from service.usecases.recording import TrialResult


def is_called_for(session: Session, job_id: UUID, case_id: UUID) -> bool:
    """Whether pairs found a case slower, by a metric that gates, and nobody has asked why yet."""
    if case_id in results.diagnoses(session, job_id):
        return False
    return any(
        row.case_id == case_id and row.is_gating and _is_slower(row)
        for row in results.comparisons(session, [job_id])
    )


def _is_slower(row: models.Comparison) -> bool:
    metric = metric_named(row.metric)
    is_of_steps = metric.method is Method.PAIRED and metric.is_of_time
    return row.verdict is Verdict.REGRESSION and is_of_steps


def record(
    session: Session,
    job: models.Job,
    case_id: UUID,
    trials: Mapping[Role, TrialResult],
    diagnosis: Diagnosis,
) -> None:
    """Store a diagnosis with its trials; the candidate's is not there if the baseline's failed."""
    for trial in trials.values():
        recording.record_solo(session, job, case_id, trial)
    candidate = trials.get(Role.CANDIDATE)
    row = models.Diagnosis(
        job_id=job.id,
        case_id=case_id,
        baseline_trial_id=trials[Role.BASELINE].trial_id,
        candidate_trial_id=candidate.trial_id if candidate else None,
        cause=diagnosis.cause,
        reason=diagnosis.reason,
        difference=asdict(diagnosis.difference) if diagnosis.difference else None,
        library={role: dict(chosen) for role, chosen in diagnosis.library.items()},
    )
    session.add(row)
    session.flush()
