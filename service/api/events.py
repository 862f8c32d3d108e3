"""/runs/{id}/events: a run as it moves on, as server-sent events (HTML Standard, section 9.2)."""

import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

import anyio
from fastapi import APIRouter, Depends, FastAPI, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.api import examples
from service.api.access import needs
from service.api.deps import SessionDep
from service.api.described import UNKNOWN, problems, stream_example
from service.api.manners import HEAD
from service.db import reading
from service.db.session import DATABASE_FAILURES, transaction
from service.db.views import RunProgress
from service.domain import Scope

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/runs", tags=["runs"])

_LOOK_S = 1.0
_LONGEST_S = 900.0  # then the caller connects anew, and is asked for its token again
_RECONNECT_MS = 2000


def install(app: FastAPI) -> None:
    """Give an application the event that ends its streams; whoever stops the server sets it."""
    app.state.stopping = threading.Event()


def _known(run_id: UUID, session: SessionDep) -> UUID:
    """The id of a run that exists. Raises NotFound before the answer begins."""
    reading.run_progress(session, run_id)
    return run_id


@router.get(
    "/{run_id}/events",
    operation_id="follow_run",
    response_class=EventSourceResponse,
    dependencies=[needs(Scope.READ)],
    responses=stream_example(examples.PROGRESS) | problems(*UNKNOWN),
)
async def follow_run(
    run_id: Annotated[UUID, Depends(_known)],
    request: Request,
    last_event_id: Annotated[
        str | None, Header(description="The last event that was seen.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Follow a run: an event `progress` at once and whenever it has moved on, until it has ended.

    `Last-Event-ID`, as a browser sends it when it connects again, leaves out what was seen. The
    stream ends after some minutes, too; connect again until an event's `status` is a final one.
    """
    seen, end = last_event_id, time.monotonic() + _LONGEST_S
    if HEAD in request.scope:
        return
    while True:
        try:
            progress = await run_in_threadpool(_progress, request, run_id, seen)
        except DATABASE_FAILURES:
            logger.warning("a stream of run %s ends: the database does not answer", run_id)
            return
        if progress is not None:
            seen = progress.mark
            yield ServerSentEvent(event="progress", id=seen, data=progress, retry=_RECONNECT_MS)
            if progress.status.is_final:
                return
        if request.app.state.stopping.is_set() or time.monotonic() > end:
            return
        await anyio.sleep(_LOOK_S)


def _progress(request: Request, run_id: UUID, seen: str | None) -> RunProgress | None:
    state = request.app.state
    with transaction(state.sessions, state.send) as session:
        return reading.run_progress(session, run_id, seen)
