"""What was measured, and what follows from it."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.db.base import Base, Samples
from service.db.models.catalog import Case, Environment, Side, now
from service.domain import Arrangement, FailureReason, Role, Verdict


class Pair(Base):
    """Baseline and candidate measured against each other once; `invalid_reason` voids it."""

    __tablename__ = "pairs"
    __table_args__ = (UniqueConstraint("job_id", "case_id", "position"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"))
    case_id: Mapped[UUID] = mapped_column(ForeignKey("cases.id"))
    environment_id: Mapped[UUID] = mapped_column(ForeignKey("environments.id"))
    position: Mapped[int]  # from 0; the order in which looks see the pairs
    arrangement: Mapped[Arrangement]
    first: Mapped[Role]  # the side that was started first
    steps_per_turn: Mapped[int]  # lock-step only; 1 elsewhere
    effects: Mapped[dict[str, Any]]  # metric -> d; empty where the pair is invalid
    invalid_reason: Mapped[FailureReason | None]
    invalid_detail: Mapped[str | None]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]
    trials: Mapped[list["Trial"]] = relationship(
        lazy="raise", back_populates="pair", order_by="Trial.role"
    )
    case: Mapped[Case] = relationship(lazy="raise")
    environment: Mapped[Environment] = relationship(lazy="raise")


class Trial(Base):
    """One launch of one side: of a pair, or a solo trial where `pair_id` is null."""

    __tablename__ = "trials"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"), index=True)
    case_id: Mapped[UUID] = mapped_column(ForeignKey("cases.id"))
    side_id: Mapped[UUID] = mapped_column(ForeignKey("sides.id"), index=True)
    pair_id: Mapped[UUID | None] = mapped_column(ForeignKey("pairs.id"), index=True)
    role: Mapped[Role]
    failure_reason: Mapped[FailureReason | None]  # null: it succeeded
    failure_detail: Mapped[str | None]
    exit_code: Mapped[int | None]
    command: Mapped[str]  # reproduces the trial by hand
    software: Mapped[dict[str, Any]]  # what the side brings: its Python, torch ...
    operators: Mapped[dict[str, Any] | None]  # name -> calls; of static trials
    num_warmup_steps: Mapped[int]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]
    pair: Mapped[Pair | None] = relationship(lazy="raise", back_populates="trials")
    side: Mapped[Side] = relationship(lazy="raise")
    measurements: Mapped[list["Measurement"]] = relationship(lazy="raise")
    artifacts: Mapped[list["Artifact"]] = relationship(lazy="raise")


class Measurement(Base):
    """One metric of one trial: summary columns over the steady window, and all samples."""

    __tablename__ = "measurements"
    __table_args__ = (UniqueConstraint("trial_id", "metric"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    trial_id: Mapped[UUID] = mapped_column(ForeignKey("trials.id"))
    metric: Mapped[str] = mapped_column(String(64))
    n: Mapped[int]
    median: Mapped[float]
    p05: Mapped[float]
    p95: Mapped[float]
    mean: Mapped[float]
    mad: Mapped[float]
    samples: Mapped[Samples] = mapped_column(deferred=True)  # warm-up included


class Comparison(Base):
    """Baseline against candidate for one metric of one case; superseded ones are history."""

    __tablename__ = "comparisons"
    __table_args__ = (Index(None, "job_id", "superseded_at"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"))
    case_id: Mapped[UUID] = mapped_column(ForeignKey("cases.id"))
    metric: Mapped[str] = mapped_column(String(64))
    is_gating: Mapped[bool]
    min_effect: Mapped[float]  # δ, a fraction
    verdict: Mapped[Verdict]
    reasons: Mapped[list[Any]]  # sentences
    effect: Mapped[float | None]  # mean of log candidate - log baseline
    low: Mapped[float | None]
    high: Mapped[float | None]
    baseline_value: Mapped[float | None]  # median over the trials, SI units
    candidate_value: Mapped[float | None]
    num_pairs: Mapped[int]
    decided_at: Mapped[int | None]  # pairs at the first crossing
    pairs_to_go: Mapped[int | None]
    q: Mapped[float | None]  # false discovery rate, of a metric that does not gate
    algorithm: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    parameters: Mapped[dict[str, Any]]
    inputs: Mapped[list[Any]]  # ids of the pairs, in order
    created_at: Mapped[datetime] = mapped_column(default=now)
    superseded_at: Mapped[datetime | None]
    looks: Mapped[list["Look"]] = relationship(
        lazy="raise", order_by="Look.num_pairs", cascade="all, delete-orphan"
    )
    case: Mapped[Case] = relationship(lazy="raise")


class Look(Base):
    """An interim analysis of a comparison after `num_pairs` pairs."""

    __tablename__ = "looks"
    __table_args__ = (UniqueConstraint("comparison_id", "num_pairs"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    comparison_id: Mapped[UUID] = mapped_column(ForeignKey("comparisons.id"))
    num_pairs: Mapped[int]
    mean: Mapped[float]
    sd: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    p_regression: Mapped[float]
    p_improvement: Mapped[float]
    p_no_change: Mapped[float]
    level_change: Mapped[float]
    level_no_change: Mapped[float]
    verdict: Mapped[Verdict | None]


class Diagnosis(Base):
    """Why a case of a job got slower, by a profiled trial of each side; or why that is not known.

    Without `candidate_trial_id` the baseline's trial failed, and the other was not started.
    """

    __tablename__ = "diagnoses"
    job_id: Mapped[UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    case_id: Mapped[UUID] = mapped_column(ForeignKey("cases.id"), primary_key=True)
    baseline_trial_id: Mapped[UUID] = mapped_column(ForeignKey("trials.id"))
    candidate_trial_id: Mapped[UUID | None] = mapped_column(ForeignKey("trials.id"))
    cause: Mapped[str | None]
    reason: Mapped[str | None]  # why there is no cause
    difference: Mapped[dict[str, Any] | None]  # stats.difference.Difference, shortened
    library: Mapped[dict[str, Any]]  # side -> what its library of collectives chose, by name
    created_at: Mapped[datetime] = mapped_column(default=now)


class Artifact(Base):
    """A file in the artifact store, such as a log; belongs to a run, mostly to one trial of it."""

    __tablename__ = "artifacts"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"), index=True)
    trial_id: Mapped[UUID | None] = mapped_column(ForeignKey("trials.id"), index=True)
    kind: Mapped[str] = mapped_column(String(32))  # log, telemetry, records, trace
    name: Mapped[str] = mapped_column(String(200))
    path: Mapped[str] = mapped_column(String(500))  # below the artifact store's root
    num_bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(default=now)
