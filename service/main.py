"""The composition root: builds the service out of its parts. Everything else takes arguments."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from celery import Celery
from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse

from dashboards.router import make_router
from runners.app import make_app, make_send
from runners.standalone import InProcessWorker
from runners.worker import Worker
from service.api import (
    access,
    events,
    health,
    monitoring,
    registry,
    runs,
    schedules,
    stack,
    tokens,
)
from service.api.access import OPEN, needs
from service.artifacts import ArtifactStore
from service.config import Settings
from service.db.session import Send, Sessions, make_engine, make_sessions
from service.domain import Scope
from service.usecases.registry import LOCAL_CLUSTER

logger = logging.getLogger(__name__)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service: API, pages and, in standalone mode, a worker. The schema must be there.

    Raises Refused where the settings do not suffice.
    """
    settings = settings or Settings()
    engine = make_engine(settings.resolved_database_url)
    sessions = make_sessions(engine)
    celery = make_app(settings)
    monitor = monitoring.Monitor(engine, sessions)
    send = monitor.counted(make_send(celery))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as stack:
            stack.callback(engine.dispose)
            if settings.is_standalone:
                stack.enter_context(_in_process(celery, settings, sessions, send))
            yield

    app = FastAPI(
        title="Paceline",
        summary="Did training get slower? How sure are we, why, and what did asking cost?",
        lifespan=lifespan,
        openapi_url=None,  # FastAPI's own route is open to all
        docs_url=None,  # and its pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.engine, app.state.sessions, app.state.send = engine, sessions, send
    app.state.access = access.from_settings(settings)
    app.state.artifacts = ArtifactStore(settings.resolved_artifact_url)
    stack.install(app, monitor, is_standalone=settings.is_standalone)
    for resource in (runs, events, schedules, registry, tokens, health, monitoring):
        app.include_router(resource.router)
    app.include_router(make_router(), prefix="/ui")
    hidden = APIRouter(include_in_schema=False)
    hidden.add_api_route("/", lambda: RedirectResponse("/ui"), dependencies=[OPEN])
    hidden.add_api_route("/openapi.json", app.openapi, dependencies=[needs(Scope.READ)])
    app.include_router(hidden)
    access.check(app)
    return app


@contextmanager
def _in_process(
    celery: Celery, settings: Settings, sessions: Sessions, send: Send
) -> Iterator[None]:
    """A worker in threads of this process, measuring on the cluster `local`, this machine."""
    worker = Worker.serving(settings, sessions, send, cluster=LOCAL_CLUSTER, slot="0")
    threads = InProcessWorker(celery, worker, LOCAL_CLUSTER)
    threads.start()
    try:
        yield
    finally:  # a second Ctrl-C cancels the server, and trials must end all the same
        threads.stop()
