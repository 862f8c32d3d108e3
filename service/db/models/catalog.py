"""What is known before anything is measured: projects, revisions, sides, clusters, cases."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from service.db.base import Base
from service.domain import Arrangement


def now() -> datetime:
    """The present, in UTC; default of creation times."""
    return datetime.now(UTC)


class Project(Base):
    """A tracked git repository."""

    __tablename__ = "projects"
    __table_args__ = (Index(None, "created_at", "id"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    source: Mapped[str] = mapped_column(String(1000))  # what git clones: a path or URL
    created_at: Mapped[datetime] = mapped_column(default=now)


class Revision(Base):
    """One commit of a project."""

    __tablename__ = "revisions"
    __table_args__ = (UniqueConstraint("project_id", "sha"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    project_id: Mapped[UUID] = mapped_column(ForeignKey("projects.id"))
    sha: Mapped[str] = mapped_column(String(64), index=True)
    subject: Mapped[str]
    author: Mapped[str]
    committed_at: Mapped[datetime]


class Side(Base):
    """What is measured: a revision with image, environment overrides and arguments."""

    __tablename__ = "sides"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    revision_id: Mapped[UUID] = mapped_column(ForeignKey("revisions.id"), index=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    image: Mapped[str | None]
    environment: Mapped[dict[str, Any]]
    arguments: Mapped[list[Any]]
    revision: Mapped[Revision] = relationship(lazy="raise")


class Cluster(Base):
    """Comparable nodes behind one launcher."""

    __tablename__ = "clusters"
    __table_args__ = (Index(None, "created_at", "id"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    launcher: Mapped[str] = mapped_column(String(32))
    max_world_size: Mapped[int]
    devices_per_node: Mapped[int]  # 0 on a CPU cluster: cost is then counted in node time
    arrangement: Mapped[Arrangement]  # the default where a case names none
    created_at: Mapped[datetime] = mapped_column(default=now)


class Slot(Base):
    """The exclusive right to measure on one node set; the holder's lease is on its job."""

    __tablename__ = "slots"
    __table_args__ = (UniqueConstraint("cluster_id", "name"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    cluster_id: Mapped[UUID] = mapped_column(ForeignKey("clusters.id"))
    name: Mapped[str] = mapped_column(String(100))
    job_id: Mapped[UUID | None] = mapped_column(ForeignKey("jobs.id"), unique=True)


class Case(Base):
    """A workload or script with parameters, layout, world size; `key` hashes its content."""

    __tablename__ = "cases"
    __table_args__ = (UniqueConstraint("project_id", "name", "key"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    project_id: Mapped[UUID] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(String(120))
    key: Mapped[str] = mapped_column(String(64), index=True)
    world_size: Mapped[int]
    spec: Mapped[dict[str, Any]]  # domain.Case


class Environment(Base):
    """Facts the cluster provides: hard ones decide comparability, soft ones define cohorts."""

    __tablename__ = "environments"
    __table_args__ = (UniqueConstraint("cluster_id", "key"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    cluster_id: Mapped[UUID] = mapped_column(ForeignKey("clusters.id"))
    key: Mapped[str] = mapped_column(String(64))
    hard: Mapped[dict[str, Any]]
    soft: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)
