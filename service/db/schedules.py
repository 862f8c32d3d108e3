"""Queries on schedules."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from service.db import models
from service.db.paging import Cursor, Page, page
from service.domain import Status, Verdict
from service.errors import NotFound

_SETTLED = (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.NO_CHANGE)
_OPEN = (Status.QUEUED, Status.RUNNING)


def schedule(session: Session, project: models.Project, name: str) -> models.Schedule:
    """Schedule of that name. Raises NotFound."""
    row = session.scalar(
        select(models.Schedule)
        .where(models.Schedule.project_id == project.id, models.Schedule.name == name)
        .options(joinedload(models.Schedule.project))
    )
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


def is_running(session: Session, schedule_id: UUID) -> bool:
    """Whether a run of the schedule has not ended."""
    query = select(models.Run.id).where(
        models.Run.schedule_id == schedule_id, models.Run.status.in_(_OPEN)
    )
    return session.scalars(query.limit(1)).first() is not None


def last_settled(session: Session, schedule_id: UUID) -> str | None:
    """Sha of the newest candidate for which the schedule's runs have found a verdict."""
    query = (
        select(models.Revision.sha)
        .join(models.Side, models.Side.revision_id == models.Revision.id)
        .join(models.Run, models.Run.candidate_side_id == models.Side.id)
        .where(models.Run.schedule_id == schedule_id, models.Run.verdict.in_(_SETTLED))
        .order_by(models.Run.created_at.desc(), models.Run.id.desc())
    )
    return session.scalars(query.limit(1)).first()
