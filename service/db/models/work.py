"""What was asked for: schedules, runs, and the jobs that carry them out."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.db.base import Base
from service.db.models.catalog import Case, Cluster, Project, Side, now
from service.domain import FailureReason, Intent, Status, Verdict


class Schedule(Base):
    """A request for a run that is made again at every time of a cron line."""

    __tablename__ = "schedules"
    __table_args__ = (UniqueConstraint("project_id", "name"), Index(None, "created_at", "id"))
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    project_id: Mapped[UUID] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(100))
    cron: Mapped[str] = mapped_column(String(100))
    request: Mapped[dict[str, Any]]  # as of a run; a baseline of null stands for the last one
    created_by: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(default=now)
    next_at: Mapped[datetime] = mapped_column(index=True)
    left_out_at: Mapped[datetime | None]  # its run before went on, or could not be asked for
    project: Mapped[Project] = relationship(lazy="raise")


class Reconciliation(Base):
    """When the reconciler last looked; one row."""

    __tablename__ = "reconciliations"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, default=0)
    at: Mapped[datetime]


class Run(Base):
    """One request: a candidate, usually a baseline, cases, a cluster and an intent."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "created_at", "id"),
        # One for every filter of a list, in the order in which lists are read.
        Index(None, "project_id", "created_at", "id"),
        Index(None, "cluster_id", "created_at", "id"),
        Index(None, "intent", "created_at", "id"),
        Index(None, "status", "created_at", "id"),
        Index(None, "verdict", "created_at", "id"),
        Index(None, "schedule_id", "created_at", "id"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    project_id: Mapped[UUID] = mapped_column(ForeignKey("projects.id"))
    cluster_id: Mapped[UUID] = mapped_column(ForeignKey("clusters.id"))
    intent: Mapped[Intent]
    status: Mapped[Status] = mapped_column(default=Status.QUEUED)
    verdict: Mapped[Verdict | None]  # of the gating metrics together, once it is finished
    failure_reason: Mapped[FailureReason | None]
    failure_detail: Mapped[str | None]
    request: Mapped[dict[str, Any]]  # the sides, suite, cases and limits as they were asked for
    policy: Mapped[dict[str, Any] | None]  # domain.Policy in force, known once planned
    baseline_side_id: Mapped[UUID | None] = mapped_column(ForeignKey("sides.id"), index=True)
    candidate_side_id: Mapped[UUID | None] = mapped_column(ForeignKey("sides.id"), index=True)
    # A token's name, `local`, or `schedule NAME`.
    requested_by: Mapped[str | None] = mapped_column(String(100))
    schedule_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("schedules.id", ondelete="SET NULL")
    )
    seed: Mapped[int]  # every random choice of the run derives from it
    created_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    planning_until: Mapped[datetime | None]  # a worker plans it; past: it was lost
    cancel_requested_at: Mapped[datetime | None]
    project: Mapped[Project] = relationship(lazy="raise")
    cluster: Mapped[Cluster] = relationship(lazy="raise")
    baseline_side: Mapped[Side | None] = relationship(lazy="raise", foreign_keys=baseline_side_id)
    candidate_side: Mapped[Side | None] = relationship(lazy="raise", foreign_keys=candidate_side_id)
    jobs: Mapped[list["Job"]] = relationship(
        lazy="raise", back_populates="run", order_by="Job.position"
    )


class IdempotencyKey(Base):
    """A key that a principal sent with a request, and the answer to repeat when it comes again."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (UniqueConstraint("principal", "key"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    principal: Mapped[str] = mapped_column(String(100))
    key: Mapped[str] = mapped_column(String(255))
    fingerprint: Mapped[str] = mapped_column(String(64))  # of method, path and body
    status: Mapped[int]
    location: Mapped[str]
    body: Mapped[str]  # text, not JSON: it is repeated to the byte
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class Job(Base):
    """The part of a run that one allocation executes. The lease fields are its claim."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("run_id", "position"),
        Index(None, "cluster_id", "status", "priority", "created_at", "id"),
        Index(None, "status", "lease_until"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"))
    cluster_id: Mapped[UUID] = mapped_column(ForeignKey("clusters.id"))  # of its run: the queue
    position: Mapped[int]
    priority: Mapped[int] = mapped_column(default=5)
    status: Mapped[Status] = mapped_column(default=Status.QUEUED)
    failure_reason: Mapped[FailureReason | None]
    failure_detail: Mapped[str | None]
    attempt: Mapped[int] = mapped_column(default=1)  # grows by a decided retry, never by a claim
    lease_owner: Mapped[str | None] = mapped_column(String(100))
    lease_token: Mapped[int] = mapped_column(default=0)  # fencing: grows with every claim
    lease_until: Mapped[datetime | None]
    num_losses: Mapped[int] = mapped_column(default=0)  # workers lost since the last pair
    device_s: Mapped[float] = mapped_column(default=0.0)  # devices (or nodes) x seconds spent
    created_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    run: Mapped[Run] = relationship(lazy="raise", back_populates="jobs")
    job_cases: Mapped[list["JobCase"]] = relationship(lazy="raise", order_by="JobCase.position")


class JobCase(Base):
    """A case of a job."""

    __tablename__ = "job_cases"
    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    case_id: Mapped[UUID] = mapped_column(ForeignKey("cases.id"), primary_key=True)
    position: Mapped[int]
    unmeasurable: Mapped[str | None]  # why the case is missing without having been tried
    finished_at: Mapped[datetime | None]  # its verdicts stand: it is not taken up again
    case: Mapped[Case] = relationship(lazy="raise")
