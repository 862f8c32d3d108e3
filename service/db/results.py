"""Queries on what was measured: pairs, trials, comparisons, artifacts."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session, joinedload, selectinload, undefer

from service.db import models
from service.db.leases import database_now
from service.domain import Role, Status, Verdict, worst
from service.errors import NotFound
from service.stats.pairs import STEP_TIME


def pairs(session: Session, job_id: UUID, case_id: UUID) -> Sequence[models.Pair]:
    """Pairs of a case in order, with trials and measurements, samples left out."""
    query = (
        select(models.Pair)
        .where(models.Pair.job_id == job_id, models.Pair.case_id == case_id)
        .order_by(models.Pair.position)
        .options(
            joinedload(models.Pair.environment),
            selectinload(models.Pair.trials).selectinload(models.Trial.measurements),
        )
    )
    return session.scalars(query).all()


def step_times(session: Session, pair_id: UUID) -> Mapping[Role, models.Measurement]:
    """Step times of both sides of a pair, samples included."""
    query = (
        select(models.Trial.role, models.Measurement)
        .join(models.Measurement)
        .where(models.Trial.pair_id == pair_id, models.Measurement.metric == STEP_TIME)
        .options(undefer(models.Measurement.samples))
    )
    return {row.role: row.Measurement for row in session.execute(query)}


def solo_trials(session: Session, job_id: UUID, case_id: UUID) -> Sequence[models.Trial]:
    """Solo trials of a case, oldest first, with their measurements."""
    query = (
        select(models.Trial)
        .where(
            models.Trial.job_id == job_id,
            models.Trial.case_id == case_id,
            models.Trial.pair_id.is_(None),
        )
        .order_by(models.Trial.started_at)
        .options(selectinload(models.Trial.measurements))
    )
    return session.scalars(query).all()


def trials(session: Session, job_id: UUID) -> Sequence[models.Trial]:
    """All trials of a job, oldest first, with side and artifacts."""
    query = (
        select(models.Trial)
        .where(models.Trial.job_id == job_id)
        .order_by(models.Trial.started_at)
        .options(
            selectinload(models.Trial.artifacts),
            joinedload(models.Trial.side).joinedload(models.Side.revision),
        )
    )
    return session.scalars(query).all()


def comparisons(session: Session, job_ids: Sequence[UUID]) -> Sequence[models.Comparison]:
    """Comparisons in force of some jobs, with cases and looks."""
    query = (
        select(models.Comparison)
        .where(models.Comparison.job_id.in_(job_ids), models.Comparison.superseded_at.is_(None))
        .options(selectinload(models.Comparison.looks), joinedload(models.Comparison.case))
    )
    return session.scalars(query).all()


def diagnoses(session: Session, job_id: UUID) -> Mapping[UUID, models.Diagnosis]:
    """What is known of why cases of a job got slower, by case."""
    query = select(models.Diagnosis).where(models.Diagnosis.job_id == job_id)
    return {row.case_id: row for row in session.scalars(query)}


def verdict(session: Session, run_id: UUID) -> Verdict:
    """What the gating metrics of a run say together, by the comparisons in force."""
    query = select(models.Comparison.verdict).join(models.Job)
    query = query.where(
        models.Job.run_id == run_id,
        models.Comparison.superseded_at.is_(None),
        models.Comparison.is_gating,
    )
    return worst(session.scalars(query).all())


def replace_comparisons(
    session: Session,
    job_id: UUID,
    case_id: UUID,
    rows: Sequence[models.Comparison],
    *,
    keep_history: bool,
) -> None:
    """Put `rows` in force for a case. What was in force becomes history, or, while the case is
    still being measured, is forgotten. A run that had its verdict gets the one that follows now.
    """
    current = (
        models.Comparison.job_id == job_id,
        models.Comparison.case_id == case_id,
        models.Comparison.superseded_at.is_(None),
    )
    if keep_history:
        now = database_now(session)
        session.execute(update(models.Comparison).where(*current).values(superseded_at=now))
    else:
        old = select(models.Comparison.id).where(*current)
        session.execute(delete(models.Look).where(models.Look.comparison_id.in_(old)))
        session.execute(delete(models.Comparison).where(*current))
    session.add_all(rows)
    session.flush()
    run = session.scalars(select(models.Run).join(models.Job).where(models.Job.id == job_id)).one()
    if run.status is Status.FINISHED:
        run.verdict = verdict(session, run.id)
        session.flush()


def progress(session: Session, run_id: UUID) -> tuple[Status, str]:
    """A run's status, and a mark that changes whenever it moves on: how much of it is recorded.

    Cheap, for it is asked every second of a run that is followed. Raises NotFound.
    """
    jobs = select(models.Job.id).where(models.Job.run_id == run_id)
    counts = [
        select(func.count()).where(kind.job_id.in_(jobs), *conditions).scalar_subquery()
        for kind, *conditions in (
            (models.Pair,),
            (models.Trial,),
            (models.JobCase, models.JobCase.finished_at.is_not(None)),
        )
    ]
    row = session.execute(select(models.Run.status, *counts).where(models.Run.id == run_id)).first()
    if row is None:
        raise NotFound("run", run_id)
    return row.status, "-".join(map(str, row))


def artifact(session: Session, artifact_id: UUID) -> models.Artifact:
    """Artifact of that id. Raises NotFound."""
    row = session.get(models.Artifact, artifact_id)
    if row is None:
        raise NotFound("artifact", artifact_id)
    return row


def run_artifacts(session: Session, run_id: UUID) -> Sequence[models.Artifact]:
    """Artifacts that belong to the run as a whole."""
    query = select(models.Artifact).where(
        models.Artifact.run_id == run_id, models.Artifact.trial_id.is_(None)
    )
    return session.scalars(query.order_by(models.Artifact.created_at)).all()
