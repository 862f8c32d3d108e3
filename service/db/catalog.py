"""Queries on what is known before measuring: projects, revisions, sides, clusters, cases."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service import domain
from service.db import models
from service.db.base import Base
from service.db.paging import Cursor, Page, page
from service.errors import NotFound

Row = TypeVar("Row", bound=Base)


def projects(session: Session) -> Sequence[models.Project]:
    """All projects by name."""
    return session.scalars(select(models.Project).order_by(models.Project.name)).all()


def newest_projects(session: Session, *, cursor: Cursor | None, limit: int) -> Page[models.Project]:
    """A page of projects."""
    return page(session, select(models.Project), cursor=cursor, limit=limit)


def project(session: Session, name: str) -> models.Project:
    """Project of that name. Raises NotFound."""
    row = session.scalar(select(models.Project).where(models.Project.name == name))
    if row is None:
        raise NotFound("project", name)
    return row


def clusters(session: Session) -> Sequence[models.Cluster]:
    """All clusters by name."""
    return session.scalars(select(models.Cluster).order_by(models.Cluster.name)).all()


def newest_clusters(session: Session, *, cursor: Cursor | None, limit: int) -> Page[models.Cluster]:
    """A page of clusters."""
    return page(session, select(models.Cluster), cursor=cursor, limit=limit)


def cluster(session: Session, name: str) -> models.Cluster:
    """Cluster of that name. Raises NotFound."""
    row = session.scalar(select(models.Cluster).where(models.Cluster.name == name))
    if row is None:
        raise NotFound("cluster", name)
    return row


def num_slots(session: Session, cluster_id: UUID) -> int:
    """How many slots a cluster has."""
    query = select(func.count()).where(models.Slot.cluster_id == cluster_id)
    return session.scalars(query).one()


def find_or_add(session: Session, row: Row, **identity: Any) -> Row:
    """The stored row with these column values, or `row`, now stored."""
    query = select(type(row)).filter_by(**identity)
    found = session.scalar(query)
    if found is not None:
        return found
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:  # another transaction was faster; it has committed by now
        return session.scalars(query).one()
    return row


def side(session: Session, revision: models.Revision, spec: domain.SideSpec) -> models.Side:
    """The side of a stored revision; equal sides share a row."""
    environment, arguments = dict(spec.environment), list(spec.arguments)
    key = domain.content_hash([str(revision.id), spec.image, environment, arguments])
    row = models.Side(
        revision_id=revision.id,
        key=key,
        image=spec.image,
        environment=environment,
        arguments=arguments,
    )
    return find_or_add(session, row, key=key)


def case(session: Session, project_id: UUID, case: domain.Case) -> models.Case:
    """The stored case of that name and content."""
    row = models.Case(
        project_id=project_id,
        name=case.name,
        key=case.key,
        world_size=case.world_size,
        spec=asdict(case),
    )
    return find_or_add(session, row, project_id=project_id, name=case.name, key=case.key)


def case_of(session: Session, case_id: UUID) -> domain.Case:
    """Case of that id. Raises NotFound."""
    row = session.get(models.Case, case_id)
    if row is None:
        raise NotFound("case", case_id)
    return domain.case_from_json(row.spec)


def environment(
    session: Session, cluster_id: UUID, hard: dict[str, Any], soft: dict[str, Any]
) -> models.Environment:
    """The stored environment with exactly these facts."""
    key = domain.content_hash([hard, soft])
    row = models.Environment(cluster_id=cluster_id, key=key, hard=hard, soft=soft)
    return find_or_add(session, row, cluster_id=cluster_id, key=key)
