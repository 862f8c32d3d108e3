"""/projects and /clusters: what a run may name."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api import examples
from service.api.access import needs
from service.api.deps import JSON_ONLY, SessionDep
from service.api.described import NEXT, REFUSALS, UNKNOWN, example, problems
from service.api.fields import Name, Text
from service.api.idempotency import RepeatableDep
from service.api.lists import Listing, PageQueryDep, listing
from service.db import catalog
from service.domain import Arrangement, Scope
from service.usecases import registry
from service.usecases.idempotency import Answer

router = APIRouter(tags=["registry"])


class ProjectBody(BaseModel):
    """A repository to track: the absolute path or the URL git clones."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "tinylm", "source": "https://git.example/tinylm.git"}]
        },
    )

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


_PROJECT = ProjectView(
    name="tinylm", source="https://git.example/tinylm.git", created_at=examples.QUEUED.created_at
)
_CLUSTER = ClusterView(
    name="local",
    launcher="local",
    max_world_size=8,
    devices_per_node=0,
    arrangement=Arrangement.LOCKSTEP,
)


@router.post(
    "/projects",
    status_code=HTTPStatus.CREATED,
    operation_id="create_project",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    response_model=ProjectView,
    responses=example(HTTPStatus.CREATED, _PROJECT, Location="Path of the project.")
    | problems(*REFUSALS),
)
def create_project(body: ProjectBody, session: SessionDep, once: RepeatableDep) -> Response:
    """Track a repository. The same name and source again change nothing."""

    def make() -> Answer:
        project = registry.add_project(session, name=body.name, source=body.source)
        view = ProjectView.model_validate(project).model_dump_json()
        return Answer(status=HTTPStatus.CREATED, location=f"/projects/{body.name}", body=view)

    return once.answer(session, body, make)


@router.get(
    "/projects",
    operation_id="list_projects",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, Listing(items=[_PROJECT], next_cursor=None), Link=NEXT)
    | problems(HTTPStatus.UNPROCESSABLE_ENTITY),
)
def list_projects(
    session: SessionDep, query: PageQueryDep, request: Request, response: Response
) -> Listing[ProjectView]:
    """Tracked repositories, newest first."""
    page = catalog.newest_projects(session, cursor=query.place, limit=query.limit)
    return listing(page.map(ProjectView.model_validate), request, response)


@router.get(
    "/projects/{name}",
    operation_id="get_project",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, _PROJECT) | problems(*UNKNOWN),
)
def get_project(name: Text, session: SessionDep) -> ProjectView:
    """One tracked repository."""
    return ProjectView.model_validate(catalog.project(session, name))


@router.get(
    "/clusters",
    operation_id="list_clusters",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, Listing(items=[_CLUSTER], next_cursor=None), Link=NEXT)
    | problems(HTTPStatus.UNPROCESSABLE_ENTITY),
)
def list_clusters(
    session: SessionDep, query: PageQueryDep, request: Request, response: Response
) -> Listing[ClusterView]:
    """Clusters, newest first."""
    page = catalog.newest_clusters(session, cursor=query.place, limit=query.limit)
    return listing(page.map(ClusterView.model_validate), request, response)


@router.get(
    "/clusters/{name}",
    operation_id="get_cluster",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, _CLUSTER) | problems(*UNKNOWN),
)
def get_cluster(name: Text, session: SessionDep) -> ClusterView:
    """One cluster."""
    return ClusterView.model_validate(catalog.cluster(session, name))
