"""/projects and /clusters: what a run may name."""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import needs
from service.api.deps import JSON_ONLY, SessionDep
from service.api.fields import Name, Text
from service.db import catalog
from service.domain import Arrangement, Scope
from service.usecases import registry

router = APIRouter(tags=["registry"], dependencies=[JSON_ONLY])


class ProjectBody(BaseModel):
    """A repository to track: the absolute path or the URL git clones."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    source: Annotated[Text, Field(min_length=1, max_length=1000)]


class ProjectView(BaseModel):
    """A tracked repository."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    source: str
    created_at: datetime


class ClusterView(BaseModel):
    """Comparable nodes behind one launcher."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    launcher: str
    max_world_size: int
    devices_per_node: int
    arrangement: Arrangement


@router.post(
    "/projects",
    status_code=HTTPStatus.CREATED,
    operation_id="create_project",
    dependencies=[needs(Scope.ADMIN)],
)
def create_project(body: ProjectBody, session: SessionDep) -> ProjectView:
    """Track a repository. The same name and source again change nothing."""
    project = registry.add_project(session, name=body.name, source=body.source)
    return ProjectView.model_validate(project)


@router.get("/projects", operation_id="list_projects", dependencies=[needs(Scope.READ)])
def list_projects(session: SessionDep) -> Sequence[ProjectView]:
    """Tracked repositories by name."""
    return [ProjectView.model_validate(row) for row in catalog.projects(session)]


@router.get("/projects/{name}", operation_id="get_project", dependencies=[needs(Scope.READ)])
def get_project(name: Text, session: SessionDep) -> ProjectView:
    """One tracked repository."""
    return ProjectView.model_validate(catalog.project(session, name))


@router.get("/clusters", operation_id="list_clusters", dependencies=[needs(Scope.READ)])
def list_clusters(session: SessionDep) -> Sequence[ClusterView]:
    """Clusters by name."""
    return [ClusterView.model_validate(row) for row in catalog.clusters(session)]


@router.get("/clusters/{name}", operation_id="get_cluster", dependencies=[needs(Scope.READ)])
def get_cluster(name: Text, session: SessionDep) -> ClusterView:
    """One cluster."""
    return ClusterView.model_validate(catalog.cluster(session, name))
