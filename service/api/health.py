"""/healthz: the process lives. /readyz: its database answers, with a schema that it can use."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from service.api.access import OPEN
from service.api.deps import JSON_ONLY
from service.api.described import example, problems
from service.api.errors import problem
from service.db import migration

router = APIRouter(tags=["health"])


@router.get(
    "/healthz",
    operation_id="health",
    dependencies=[OPEN, JSON_ONLY],
    responses=example(HTTPStatus.OK, {"status": "ok"}) | problems(is_open=True),
)
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    operation_id="readiness",
    response_model=dict[str, str],
    dependencies=[OPEN, JSON_ONLY],
    responses=example(HTTPStatus.OK, {"status": "ready"})
    | problems(HTTPStatus.SERVICE_UNAVAILABLE, is_open=True),
)
def readyz(request: Request) -> Response | dict[str, str]:
    """The database answers, and its schema is not older than this version."""
    missing = migration.pending(request.app.state.engine)
    if missing is not None:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, missing)
    return {"status": "ready"}
