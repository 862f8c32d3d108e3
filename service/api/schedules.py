"""Schedules: runs that are asked for again and again, by the clock."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api import examples
from service.api.access import PrincipalDep, needs
from service.api.deps import JSON_ONLY, SessionDep
from service.api.described import NEXT, REFUSALS, UNKNOWN, example, problems
from service.api.fields import ScheduleName, Text
from service.api.lists import Listing, PageQueryDep, listing
from service.api.runs import MeasureBody, SideBody
from service.db import catalog, models
from service.db import schedules as schedules_db
from service.domain import Scope, SideSpec
from service.usecases import schedules
from service.usecases.runs import RunRequest

router = APIRouter(tags=["schedules"])
_PATH = "/projects/{project}/schedules/{name}"


class ScheduleBody(MeasureBody):
    """When to ask for a run, and for which."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"cron": "0 2 * * *", "candidate": "main"}]},
    )

    cron: Annotated[Text, Field(max_length=100)] = Field(
        description="Minute, hour, day of the month, month, day of the week (0 or `sun` to 6), "
        "in UTC; all five must match."
    )
    baseline: SideBody | None = Field(
        None,
        description="Default: the last commit for which this schedule found a verdict; before "
        "there is one, and to `calibrate`, what a run has by default.",
    )


class ScheduleView(BaseModel):
    """A schedule. `request` is what its runs ask for."""

    name: str
    project: str
    cron: str
    request: dict[str, Any]
    created_by: str
    created_at: datetime
    next_at: datetime
    left_out_at: datetime | None = Field(
        description="When it last left a time out: its run before went on, or the log says why."
    )


def _asked(request: RunRequest | Mapping[str, Any]) -> dict[str, Any]:
    """What runs ask for, without the project, which stands beside it."""
    values = asdict(request) if isinstance(request, RunRequest) else request
    return {key: value for key, value in values.items() if key != "project"}


_NIGHTLY = ScheduleView(
    name="nightly",
    project="tinylm",
    cron="0 2 * * *",
    request=_asked(RunRequest(project="tinylm", candidate=SideSpec(revision="main"))),
    created_by="ada",
    created_at=examples.QUEUED.created_at,
    next_at=examples.QUEUED.created_at + timedelta(hours=14),
    left_out_at=None,
)

_CREATED = example(HTTPStatus.CREATED, _NIGHTLY)[HTTPStatus.CREATED]
_REFUSALS = {*REFUSALS, HTTPStatus.NOT_FOUND} - {HTTPStatus.CONFLICT}  # it replaces what is there


@router.put(
    _PATH,
    operation_id="put_schedule",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    responses=example(HTTPStatus.OK, _NIGHTLY)
    | {HTTPStatus.CREATED: {"model": ScheduleView, **_CREATED}}
    | problems(*_REFUSALS),
)
def put_schedule(
    project: Text,
    name: ScheduleName,
    body: ScheduleBody,
    session: SessionDep,
    principal: PrincipalDep,
    response: Response,
) -> ScheduleView:
    """Set a schedule: a new one (201), or another content of the one with that name."""
    row, is_new = schedules.put(
        session, name, body.cron, body.request(project), created_by=principal.name
    )
    if is_new:
        response.status_code = HTTPStatus.CREATED
    return _view(row)


@router.get(
    "/schedules",
    operation_id="list_schedules",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, Listing(items=[_NIGHTLY], next_cursor=None), Link=NEXT)
    | problems(HTTPStatus.UNPROCESSABLE_ENTITY),
)
def list_schedules(
    session: SessionDep, query: PageQueryDep, request: Request, response: Response
) -> Listing[ScheduleView]:
    """Schedules of all projects, newest first."""
    page = schedules_db.newest(session, cursor=query.place, limit=query.limit)
    return listing(page.map(_view), request, response)


@router.get(
    _PATH,
    operation_id="get_schedule",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, _NIGHTLY) | problems(*UNKNOWN),
)
def get_schedule(project: Text, name: Text, session: SessionDep) -> ScheduleView:
    """One schedule."""
    return _view(schedules_db.schedule(session, catalog.project(session, project), name))


@router.delete(
    _PATH,
    operation_id="delete_schedule",
    dependencies=[needs(Scope.ADMIN), JSON_ONLY],
    responses=example(HTTPStatus.OK, _NIGHTLY) | problems(*UNKNOWN),
)
def delete_schedule(project: Text, name: Text, session: SessionDep) -> ScheduleView:
    """Take a schedule away, and answer what it was. Its runs stay."""
    return _view(schedules.delete(session, project, name))


def _view(row: models.Schedule) -> ScheduleView:
    return ScheduleView(
        name=row.name,
        project=row.project.name,
        cron=row.cron,
        request=_asked(row.request),
        created_by=row.created_by,
        created_at=row.created_at,
        next_at=row.next_at,
        left_out_at=row.left_out_at,
    )
