"""What the buttons on pages do. Every form is answered by the page that shows its outcome."""

from contextlib import suppress
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from dashboards.responses import PageRoute, see
from dashboards.templating import ROOT
from service.api.access import OUR_FORM, needs
from service.api.deps import SessionDep
from service.domain import Scope
from service.errors import Conflict
from service.usecases import runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/runs/{run_id}/cancel", dependencies=[needs(Scope.RUNS_WRITE), OUR_FORM])
def cancel_run(run_id: UUID, session: SessionDep) -> Response:
    """Cancel a run. The page of one that ended in the meantime shows how."""
    with suppress(Conflict):
        runs.cancel(session, run_id)
    return see(f"{ROOT}/runs/{run_id}")
