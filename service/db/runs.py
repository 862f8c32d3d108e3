"""Queries on runs and jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    and_,
    exists,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.orm import Session, joinedload, selectinload

from service.db import models, results
from service.db.leases import database_now
from service.db.paging import Cursor, Page, page
from service.domain import CANCELLED, Failure, Intent, Status, Verdict
from service.errors import NotFound

Row = TypeVar("Row")

_SIDES: list[Any] = [
    joinedload(models.Run.project),
    joinedload(models.Run.cluster),
    joinedload(models.Run.baseline_side).joinedload(models.Side.revision),
    joinedload(models.Run.candidate_side).joinedload(models.Side.revision),
    selectinload(models.Run.jobs),
]


def run(session: Session, run_id: UUID) -> models.Run:
    """Run with project, cluster and sides. Raises NotFound."""
    query = select(models.Run).where(models.Run.id == run_id).options(*_SIDES)
    return _found(session.scalar(query), "run", run_id)


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs; what is None or empty does not matter. `revision` is a sha, or the beginning of
    one, of either side. `since` belongs to the time that is meant, `until` does not.
    """

    project: str | None = None
    cluster: str | None = None
    intent: Intent | None = None
    statuses: Sequence[Status] = ()
    verdicts: Sequence[Verdict] = ()
    revision: str | None = None
    since: datetime | None = None
    until: datetime | None = None


ALL = RunFilter()


def newest(
    session: Session, which: RunFilter = ALL, *, cursor: Cursor | None = None, limit: int = 50
) -> Page[models.Run]:
    """A page of runs, with project, cluster and sides."""
    query = select(models.Run).options(*_SIDES).where(*_conditions(which))
    return page(session, query, cursor=cursor, limit=limit)


def _conditions(which: RunFilter) -> Iterator[ColumnElement[bool]]:
    row = models.Run
    if which.project is not None:
        yield row.project_id == _id_of(models.Project, which.project)
    if which.cluster is not None:
        yield row.cluster_id == _id_of(models.Cluster, which.cluster)
    if which.intent is not None:
        yield row.intent == which.intent
    if which.statuses:
        yield row.status.in_(which.statuses)
    if which.verdicts:
        yield row.verdict.in_(which.verdicts)
    if which.revision is not None:
        yield row.id.in_(_with_revision(which.revision))
    if which.since is not None:
        yield row.created_at >= which.since
    if which.until is not None:
        yield row.created_at < which.until


def _id_of(kind: type[models.Project | models.Cluster], name: str) -> ScalarSelect[UUID]:
    """Not a join: with one id known, runs come in order out of the index that begins with it."""
    return select(kind.id).where(kind.name == name).scalar_subquery()


def _with_revision(prefix: str) -> CompoundSelect[UUID]:
    """Ids of the runs of which a side's sha begins so. A range, for LIKE needs an index of its own;
    "g" is the first letter that is no hexadecimal digit.
    """
    begins = models.Revision.sha.between(prefix, f"{prefix}g")
    sides = select(models.Side.id).join(models.Revision).where(begins)
    columns = (models.Run.baseline_side_id, models.Run.candidate_side_id)
    return union(*(select(models.Run.id).where(column.in_(sides)) for column in columns))


def job(session: Session, job_id: UUID) -> models.Job:
    """Job with its run, sides, cluster and cases. Raises NotFound."""
    query = (
        select(models.Job)
        .where(models.Job.id == job_id)
        .options(
            joinedload(models.Job.run).options(*_SIDES),
            selectinload(models.Job.job_cases).joinedload(models.JobCase.case),
        )
    )
    return _found(session.scalar(query), "job", job_id)


def jobs(session: Session, run_id: UUID) -> Sequence[models.Job]:
    """Jobs of a run in order, with their cases."""
    query = (
        select(models.Job)
        .where(models.Job.run_id == run_id)
        .order_by(models.Job.position)
        .options(selectinload(models.Job.job_cases).joinedload(models.JobCase.case))
    )
    return session.scalars(query).all()


def lock(session: Session, run_id: UUID) -> models.Run:
    """Run, held until the transaction ends. Raises NotFound."""
    query = select(models.Run).where(models.Run.id == run_id).with_for_update()
    return _found(session.scalar(query), "run", run_id)


def unplanned(session: Session, *, older_than_s: float) -> Sequence[UUID]:
    """Runs that wait for their plan and that nobody plans: message or worker were lost."""
    now = database_now(session)
    query = select(models.Run.id).where(
        models.Run.created_at < now - timedelta(seconds=older_than_s), _can_be_planned(now)
    )
    return session.scalars(query.order_by(models.Run.created_at)).all()


def claim_planning(session: Session, run_id: UUID, *, lease_s: float) -> bool:
    """Whether the run is now the caller's to plan."""
    now = database_now(session)
    query = (
        update(models.Run)
        .where(models.Run.id == run_id, _can_be_planned(now))
        .values(planning_until=now + timedelta(seconds=lease_s))
        .returning(models.Run.id)
    )
    return session.scalar(query) is not None


def _can_be_planned(now: datetime) -> ColumnElement[bool]:
    return and_(
        models.Run.status == Status.QUEUED,
        ~exists().where(models.Job.run_id == models.Run.id),
        or_(models.Run.planning_until.is_(None), models.Run.planning_until < now),
    )


def waiting_clusters(session: Session) -> Sequence[str]:
    """Names of clusters that have both a queued job and a free slot."""
    has_job = exists().where(
        models.Job.cluster_id == models.Cluster.id, models.Job.status == Status.QUEUED
    )
    has_slot = exists().where(
        models.Slot.cluster_id == models.Cluster.id, models.Slot.job_id.is_(None)
    )
    query = select(models.Cluster.name).where(has_job, has_slot)
    return session.scalars(query.order_by(models.Cluster.name)).all()


def cancel_queued(session: Session, run_id: UUID, at: datetime) -> None:
    """Cancel the queued jobs of a run; one that is being claimed right now hears of it later."""
    query = select(models.Job).where(
        models.Job.run_id == run_id, models.Job.status == Status.QUEUED
    )
    for job in session.scalars(query.with_for_update(skip_locked=True)):
        job.status, job.finished_at = Status.CANCELLED, at
        job.failure_reason, job.failure_detail = CANCELLED.reason, CANCELLED.detail
    session.flush()


def finish_case(session: Session, job_id: UUID, case_id: UUID) -> None:
    """Let the verdicts of a case stand: it is not taken up again with its job."""
    session.execute(
        update(models.JobCase)
        .where(models.JobCase.job_id == job_id, models.JobCase.case_id == case_id)
        .values(finished_at=database_now(session))
    )


def mark_started(session: Session, run_id: UUID, at: datetime) -> None:
    """Set a queued run running."""
    session.execute(
        update(models.Run)
        .where(models.Run.id == run_id, models.Run.status == Status.QUEUED)
        .values(status=Status.RUNNING, started_at=at)
    )


def finish(
    session: Session,
    row: models.Run,
    status: Status,
    failure: Failure | None = None,
) -> None:
    """Give a run its final status and, where it was measured, its verdict."""
    row.verdict = results.verdict(session, row.id) if status is Status.FINISHED else None
    row.status, row.finished_at = status, database_now(session)
    row.failure_reason = failure.reason if failure else None
    row.failure_detail = failure.detail if failure else None


def _found(row: Row | None, kind: str, ident: UUID) -> Row:
    if row is None:
        raise NotFound(kind, ident)
    return row
