"""/runs: ask for a run, follow it, cancel it."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from service.api import examples
from service.api.access import needs
from service.api.deps import JSON_ONLY, SessionDep
from service.api.described import NEXT, REFUSALS, UNKNOWN, example, problems
from service.api.fields import EnvironmentName, Revision, Text
from service.api.idempotency import RepeatableDep
from service.api.lists import Listing, RunQueryDep, listing
from service.db import reading
from service.db.views import RunDetail, RunSummary
from service.domain import LOOKS, Intent, Kind, Scope, SideSpec
from service.usecases import runs
from service.usecases.idempotency import Answer

router = APIRouter(prefix="/runs", tags=["runs"])
_SUMMARY = TypeAdapter(RunSummary)


class SideBody(BaseModel):
    """A side: what is measured."""

    model_config = ConfigDict(extra="forbid")

    revision: Revision
    image: Text | None = None
    environment: dict[EnvironmentName, Text] = {}
    arguments: list[Text] = []


class MeasureBody(BaseModel):
    """What to measure. A side is a revision string or an object."""

    candidate: SideBody
    baseline: SideBody | None = None
    cluster: Text = "local"
    suite: Text | None = Field(None, description="A suite of paceline.yml; default: `default`.")
    cases: list[Text] | None = Field(None, min_length=1, description="Cases instead of a suite.")
    kind: Kind | None = Field(None, description="Only cases of this kind; default: all.")
    intent: Intent = Intent.GATE
    max_pairs: int | None = Field(None, ge=LOOKS[0], le=LOOKS[-1])
    budget_device_hours: float | None = Field(None, gt=0, allow_inf_nan=False)

    @field_validator("candidate", "baseline", mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"revision": value} if isinstance(value, str) else value

    def request(self, project: str) -> runs.RunRequest:
        """The use case's argument."""
        values = self.model_dump(include=set(MeasureBody.model_fields) - {"candidate", "baseline"})
        return runs.RunRequest(
            project=project,
            candidate=SideSpec(**self.candidate.model_dump()),
            baseline=None if self.baseline is None else SideSpec(**self.baseline.model_dump()),
            **values,
        )


class RunBody(MeasureBody):
    """A run to ask for."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"project": "tinylm", "baseline": "main", "candidate": "faster-rope"}]
        },
    )

    project: Text
    baseline: SideBody | None = Field(
        None,
        description="Default: the candidate's first parent; to `calibrate`, the candidate itself.",
    )


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    operation_id="create_run",
    dependencies=[needs(Scope.RUNS_WRITE), JSON_ONLY],
    response_model=RunSummary,
    responses=example(
        HTTPStatus.ACCEPTED,
        examples.QUEUED,
        Location="Path of the run.",
        Idempotency_Replayed="`true` where the request had come before; else absent.",
    )
    | problems(*REFUSALS, HTTPStatus.NOT_FOUND),
)
def create_run(body: RunBody, session: SessionDep, once: RepeatableDep) -> Response:
    """Ask for a run. 202: it is stored and will be planned; follow `Location`."""

    def make() -> Answer:
        run = runs.request(session, body.request(body.project), requested_by=once.principal)
        view = _SUMMARY.dump_json(reading.run_summary(session, run.id)).decode()
        return Answer(status=HTTPStatus.ACCEPTED, location=f"/runs/{run.id}", body=view)

    return once.answer(session, body, make)


@router.get(
    "",
    operation_id="list_runs",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(
        HTTPStatus.OK, Listing(items=[examples.FINISHED], next_cursor=examples.CURSOR), Link=NEXT
    )
    | problems(HTTPStatus.UNPROCESSABLE_ENTITY),
)
def list_runs(
    session: SessionDep, query: RunQueryDep, request: Request, response: Response
) -> Listing[RunSummary]:
    """Runs, newest first, as summaries."""
    page = reading.run_list(session, query.which, cursor=query.place, limit=query.limit)
    return listing(page, request, response)


@router.get(
    "/{run_id}",
    operation_id="get_run",
    dependencies=[needs(Scope.READ), JSON_ONLY],
    responses=example(HTTPStatus.OK, examples.DETAIL) | problems(*UNKNOWN),
)
def get_run(run_id: UUID, session: SessionDep) -> RunDetail:
    """A run with its comparisons, pairs, trials and environments."""
    return reading.run_detail(session, run_id)


@router.post(
    "/{run_id}/cancel",
    status_code=HTTPStatus.ACCEPTED,
    operation_id="cancel_run",
    dependencies=[needs(Scope.RUNS_WRITE), JSON_ONLY],
    responses=example(HTTPStatus.ACCEPTED, examples.CANCELLED)
    | problems(*UNKNOWN, HTTPStatus.CONFLICT),
)
def cancel_run(run_id: UUID, session: SessionDep) -> RunSummary:
    """Stop a run: at once while it waits, within seconds while it is measured."""
    runs.cancel(session, run_id)
    return reading.run_summary(session, run_id)
