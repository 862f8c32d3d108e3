"""Queries on schedules."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Select, exists, select
from sqlalchemy.orm import Session, joinedload

from service.db import models
from service.db.paging import Cursor, Page, page
from service.domain import OPEN, Intent, Status, Verdict
from service.errors import NotFound

_SETTLED = (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.NO_CHANGE)


def schedule(session: Session, project: models.Project, name: str) -> models.Schedule:
    """Schedule of that name. Raises NotFound."""
    return _found(session.scalar(_named(project, name)), project, name)


def lock(session: Session, project: models.Project, name: str) -> models.Schedule:
    """Schedule of that name, held until the transaction ends. Raises NotFound."""
    query = _named(project, name).with_for_update(of=models.Schedule)
    row = session.scalar(query.execution_options(populate_existing=True))
    return _found(row, project, name)


def _named(project: models.Project, name: str) -> Select[models.Schedule]:
    return (
        select(models.Schedule)
        .where(models.Schedule.project_id == project.id, models.Schedule.name == name)
        .options(joinedload(models.Schedule.project))
    )


def _found(row: models.Schedule | None, project: models.Project, name: str) -> models.Schedule:
    if row is None:
        raise NotFound("schedule", f"{project.name}/{name}")
    return row


def newest(session: Session, *, cursor: Cursor | None, limit: int) -> Page[models.Schedule]:
    """A page of schedules, with their projects."""
    query = select(models.Schedule).options(joinedload(models.Schedule.project))
    return page(session, query, cursor=cursor, limit=limit)


def due(session: Session, now: datetime) -> Sequence[models.Schedule]:
    """Schedules whose time has come, held until the transaction ends; those held are left out."""
    query = (
        select(models.Schedule)
        .where(models.Schedule.next_at <= now)
        .order_by(models.Schedule.next_at, models.Schedule.id)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def has_open_run(session: Session, schedule_id: UUID) -> bool:
    """Whether a run of the schedule has not ended."""
    query = select(models.Run.id).where(
        models.Run.schedule_id == schedule_id, models.Run.status.in_(OPEN)
    )
    return session.scalars(query.limit(1)).first() is not None


def last_settled(session: Session, schedule_id: UUID, revision: str) -> str | None:
    """Sha of the newest commit of `revision` on which the schedule's runs have settled everything.

    That is every gating metric of every case that could be measured: a case that is new is missing
    once, and must not keep the baseline where it is for ever. A run against itself settles nothing.
    """
    query = (
        select(models.Revision.sha)
        .join(models.Side, models.Side.revision_id == models.Revision.id)
        .join(models.Run, models.Run.candidate_side_id == models.Side.id)
        .where(
            models.Run.schedule_id == schedule_id,
            models.Run.status == Status.FINISHED,
            models.Run.intent != Intent.CALIBRATE,
            models.Run.request["candidate"]["revision"].as_string() == revision,
            _judged(models.Comparison.verdict.in_(_SETTLED)),
            ~_judged(models.Comparison.verdict.not_in(_SETTLED)),
        )
        .order_by(models.Run.created_at.desc(), models.Run.id.desc())
    )
    return session.scalars(query.limit(1)).first()


def _judged(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a gating comparison of a measurable case of the run fulfils a condition."""
    return (
        exists()
        .where(models.Job.run_id == models.Run.id)
        .where(models.Comparison.job_id == models.Job.id, models.Comparison.is_gating)
        .where(models.Comparison.superseded_at.is_(None), condition)
        .where(models.JobCase.job_id == models.Job.id)
        .where(models.JobCase.case_id == models.Comparison.case_id)
        .where(models.JobCase.unmeasurable.is_(None))
    )
