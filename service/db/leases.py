"""Claims on jobs and slots. The lease is on the database's clock, fenced by a growing token."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from sqlalchemy import CursorResult, Update, func, select, update
from sqlalchemy.orm import Session

from service.db import models
from service.db.base import AwareDateTime
from service.domain import CANCELLED, Failure, FailureReason, Status
from service.errors import LeaseLost


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to execute one job on one slot, until the lease runs out."""

    job_id: UUID
    run_id: UUID
    token: int


def database_now(session: Session) -> datetime:
    """The database's clock: workers' own clocks may differ."""
    if session.get_bind().dialect.name == "postgresql":
        return session.scalars(select(func.clock_timestamp(type_=AwareDateTime()))).one()
    text = session.scalars(select(func.strftime("%Y-%m-%dT%H:%M:%f", "now"))).one()
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def claim(session: Session, slot_id: UUID, *, owner: str, lease_s: float) -> Claim | None:
    """Claim a free slot and the next queued job of its cluster; None where either is not to be had.

    A slot is taken until the job that holds it has ended or was taken back after the kill grace.
    """
    now = database_now(session)
    slot = session.scalar(
        select(models.Slot)
        .where(models.Slot.id == slot_id, models.Slot.job_id.is_(None))
        .with_for_update(skip_locked=True)
    )
    if slot is None:
        return None
    job = session.scalar(
        select(models.Job)
        .where(models.Job.cluster_id == slot.cluster_id, models.Job.status == Status.QUEUED)
        .order_by(models.Job.priority, models.Job.created_at, models.Job.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if job is None:
        return None
    slot.job_id = job.id
    job.status, job.lease_owner = Status.RUNNING, owner
    job.lease_until = now + timedelta(seconds=lease_s)
    job.lease_token += 1
    job.started_at = job.started_at or now
    session.flush()
    return Claim(job_id=job.id, run_id=job.run_id, token=job.lease_token)


def extend(session: Session, claim: Claim, *, lease_s: float) -> bool:
    """Renew the lease; True where the run has been asked to cancel. Raises LeaseLost."""
    _write_as_owner(session, claim, lease_until=database_now(session) + timedelta(seconds=lease_s))
    query = select(models.Run.cancel_requested_at).where(models.Run.id == claim.run_id)
    return session.scalar(query) is not None


def fence(session: Session, claim: Claim) -> None:
    """Let the transaction go on only where the claim still holds. Raises LeaseLost."""
    _write_as_owner(session, claim, lease_token=claim.token)


def release(session: Session, claim: Claim, status: Status, failure: Failure | None = None) -> None:
    """End the job with a final status and free its slot. Raises LeaseLost."""
    fence(session, claim)
    _end(session, claim.job_id, status, failure)


def hand_back(session: Session, claim: Claim) -> None:
    """Queue the job again, as it is, and free its slot. Raises LeaseLost."""
    fence(session, claim)
    _requeue(session, claim.job_id)


def take_back_expired(session: Session, *, grace_s: float, max_losses: int) -> list[UUID]:
    """Queue jobs whose lease ran out more than `grace_s` ago, and free their slots; their runs.

    Half a lease after its last renewal a worker kills its trial itself; the grace lets it finish.
    A job that lost `max_losses` workers without a pair between them fails: it may be what ends
    them.
    """
    limit = database_now(session) - timedelta(seconds=grace_s)
    expired = (
        select(models.Job)
        .where(models.Job.status == Status.RUNNING, models.Job.lease_until < limit)
        .with_for_update(skip_locked=True)
    )
    jobs = session.scalars(expired).all()
    for job in jobs:
        job.num_losses += 1
        session.flush()
        if job.num_losses < max_losses:
            _requeue(session, job.id)
            continue
        detail = (
            f"Its worker was lost {job.num_losses} times before it could record a pair, the last "
            f"time {job.lease_owner}. Look at that machine's memory and the worker's log."
        )
        _end(
            session, job.id, Status.FAILED, Failure(reason=FailureReason.LEASE_LOST, detail=detail)
        )
    return [job.run_id for job in jobs]


def _requeue(session: Session, job_id: UUID) -> None:
    """Queue a job again, or end it where its run is to be cancelled.

    A new token goes with it: what the old owner still writes is refused.
    """
    wish = select(models.Run.cancel_requested_at).join(models.Job).where(models.Job.id == job_id)
    if session.scalar(wish) is not None:
        _end(session, job_id, Status.CANCELLED, CANCELLED)
        return
    _free_slot(session, job_id)
    _update_job(
        session,
        job_id,
        status=Status.QUEUED,
        lease_owner=None,
        lease_until=None,
        lease_token=models.Job.lease_token + 1,
    )


def _end(session: Session, job_id: UUID, status: Status, failure: Failure | None) -> None:
    _free_slot(session, job_id)
    _update_job(
        session,
        job_id,
        status=status,
        failure_reason=failure.reason if failure else None,
        failure_detail=failure.detail if failure else None,
        finished_at=database_now(session),
        lease_until=None,
    )


def _update_job(session: Session, job_id: UUID, **values: Any) -> None:
    _execute(session, update(models.Job).where(models.Job.id == job_id).values(**values))


def _free_slot(session: Session, job_id: UUID) -> None:
    _execute(session, update(models.Slot).where(models.Slot.job_id == job_id).values(job_id=None))


def _write_as_owner(session: Session, claim: Claim, **values: Any) -> None:
    statement = (
        update(models.Job)
        .where(
            models.Job.id == claim.job_id,
            models.Job.lease_token == claim.token,
            models.Job.status == Status.RUNNING,
        )
        .values(**values)
    )
    if _execute(session, statement) != 1:
        raise LeaseLost(f"Job {claim.job_id} is no longer this worker's (token {claim.token}).")


def _execute(session: Session, statement: Update) -> int:
    options = {"synchronize_session": False}
    result = cast("CursorResult[Any]", session.execute(statement, execution_options=options))
    return result.rowcount
