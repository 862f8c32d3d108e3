"""Claims on jobs and slots. The lease is on the database's clock, fenced by a growing token."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from sqlalchemy import CursorResult, Update, func, select, update
from sqlalchemy.orm import Session

from service.db import models
from service.db.base import AwareDateTime
from service.domain import FailureReason, Status
from service.errors import LeaseLost


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to execute one job on one slot, until the lease runs out."""

    job_id: UUID
    run_id: UUID
    token: int
    slot: str


def database_now(session: Session) -> datetime:
    """The database's clock: workers' own clocks may differ."""
    if session.get_bind().dialect.name == "postgresql":
        return session.scalars(select(func.clock_timestamp(type_=AwareDateTime()))).one()
    text = session.scalars(select(func.strftime("%Y-%m-%dT%H:%M:%f", "now"))).one()
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def claim(session: Session, job_id: UUID, *, owner: str, lease_s: float) -> Claim | None:
    """Claim a queued job and a free slot of its cluster; None where either is not to be had.

    A slot whose lease has run out is not free: the reconciler releases it after the kill grace.
    """
    now = database_now(session)
    job = session.scalar(
        select(models.Job)
        .where(models.Job.id == job_id, models.Job.status == Status.QUEUED)
        .with_for_update(skip_locked=True)
    )
    if job is None:
        return None
    slot = session.scalar(
        select(models.Slot)
        .join(models.Run, models.Run.cluster_id == models.Slot.cluster_id)
        .where(models.Run.id == job.run_id, models.Slot.job_id.is_(None))
        .order_by(models.Slot.name)
        .limit(1)
        .with_for_update(skip_locked=True, of=models.Slot)
    )
    if slot is None:
        return None
    until = now + timedelta(seconds=lease_s)
    slot.job_id, slot.lease_until = job.id, until
    job.status, job.lease_owner, job.lease_until = Status.RUNNING, owner, until
    job.lease_token += 1
    job.started_at = job.started_at or now
    session.flush()
    return Claim(job_id=job.id, run_id=job.run_id, token=job.lease_token, slot=slot.name)


def extend(session: Session, claim: Claim, *, lease_s: float) -> bool:
    """Renew the lease; True where the run has been asked to cancel. Raises LeaseLost."""
    until = database_now(session) + timedelta(seconds=lease_s)
    _write_as_owner(session, claim, lease_until=until)
    _execute(
        session,
        update(models.Slot).where(models.Slot.job_id == claim.job_id).values(lease_until=until),
    )
    query = select(models.Run.cancel_requested_at).where(models.Run.id == claim.run_id)
    return session.scalar(query) is not None


def fence(session: Session, claim: Claim) -> None:
    """Let the transaction go on only where the claim still holds. Raises LeaseLost."""
    _write_as_owner(session, claim, lease_token=claim.token)


def release(
    session: Session,
    claim: Claim,
    status: Status,
    *,
    reason: FailureReason | None = None,
    detail: str | None = None,
) -> None:
    """End the job with a final status and free its slot. Raises LeaseLost."""
    now = database_now(session)
    _write_as_owner(
        session,
        claim,
        status=status,
        failure_reason=reason,
        failure_detail=detail,
        finished_at=now,
        lease_until=None,
    )
    _free_slot(session, claim.job_id)


def requeue_expired(session: Session, *, grace_s: float) -> list[UUID]:
    """Queue jobs whose lease ran out more than `grace_s` ago, and free their slots.

    Half a lease after its last renewal a worker kills its trial itself; the grace lets it finish.
    """
    limit = database_now(session) - timedelta(seconds=grace_s)
    expired = select(models.Job.id).where(
        models.Job.status == Status.RUNNING, models.Job.lease_until < limit
    )
    job_ids = list(session.scalars(expired.with_for_update(skip_locked=True)))
    for job_id in job_ids:
        _requeue(session, job_id)
    return job_ids


def hand_back(session: Session, claim: Claim) -> None:
    """Queue the job again, as it is, and free its slot. Raises LeaseLost."""
    fence(session, claim)
    _requeue(session, claim.job_id)


def _requeue(session: Session, job_id: UUID) -> None:
    """A new token goes with it: what the old owner still writes is refused."""
    _free_slot(session, job_id)
    values = {"status": Status.QUEUED, "lease_owner": None, "lease_until": None}
    _execute(
        session,
        update(models.Job)
        .where(models.Job.id == job_id)
        .values(lease_token=models.Job.lease_token + 1, **values),
    )


def _free_slot(session: Session, job_id: UUID) -> None:
    _execute(
        session,
        update(models.Slot)
        .where(models.Slot.job_id == job_id)
        .values(job_id=None, lease_until=None),
    )


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
