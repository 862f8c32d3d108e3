"""A service with one run of every outcome on a temporary database, and Debian's chromium."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from sqlalchemy.orm import Session

from dashboards.router import make_router
from service.api import events, runs, stack
from service.api.access import Access
from service.api.monitoring import Monitor
from service.artifacts import ArtifactStore
from service.db import models
from service.db.base import Base
from service.db.session import Sessions, make_engine, make_sessions, transaction
from tests import factories
from tests.browser.scenes import store_all
from tests.conftest import missing

_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOG = "step 1 loss 10.82\n\x1b[31mRuntimeError\x1b[0m: <b>shape</b> mismatch\n"


@dataclass(frozen=True)
class Site:
    """A running service and the runs it shows, by outcome."""

    url: str
    runs: dict[str, UUID]
    sessions: Sessions

    def run(self, name: str) -> str:
        """Address of the page of the run with this outcome."""
        return f"{self.url}/ui/runs/{self.runs[name]}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service with a run of every outcome."""
    yield from _serve(tmp_path_factory.mktemp("site"), store_all)


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """The service with runs that one test alone may change."""
    yield from _serve(tmp_path, store_all)


@pytest.fixture(scope="session")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service as it is on the first day."""
    yield from _serve(tmp_path_factory.mktemp("empty"), lambda _session: {})


@pytest.fixture
def guarded_site(tmp_path: Path) -> Iterator[Site]:
    """The service that asks for tokens, with the runs of one test alone."""
    yield from _serve(tmp_path, store_all, asks_token=True)


def _serve(
    folder: Path, fill: Callable[[Session], dict[str, UUID]], *, asks_token: bool = False
) -> Iterator[Site]:
    engine = make_engine(f"sqlite:///{folder / 'test.db'}")
    Base.metadata.create_all(engine)
    app = FastAPI()
    app.state.sessions, app.state.send = make_sessions(engine), factories.unsent
    app.state.access = Access(asks_token=asks_token, key="k" * 32)
    app.state.artifacts = ArtifactStore(str(folder / "artifacts"))
    with transaction(app.state.sessions, app.state.send) as session:
        stored = fill(session)
        for artifact in session.scalars(sa.select(models.Artifact)):
            app.state.artifacts.put(artifact.path, LOG.encode())
    stack.install(app, Monitor(engine, app.state.sessions), is_standalone=not asks_token)
    app.include_router(runs.router)
    app.include_router(events.router)
    app.include_router(make_router(), prefix="/ui")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", stored, app.state.sessions)
        app.state.stopping.set()
        server.should_exit = True
        thread.join()
    engine.dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium; not for longer, for Playwright keeps an event loop in this thread."""
    program = shutil.which("chromium")
    if program is None:
        missing("chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Visit:
    """A browser tab that remembers what went wrong in it and whom it asked."""

    page: Page
    complaints: list[str]
    hosts: set[str]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens an address in a fresh browser context with the options given."""
    contexts: list[BrowserContext] = []

    def open_tab(url: str, **options: object) -> Visit:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        visit = Visit(context.new_page(), [], set())
        visit.page.on("console", lambda message: visit.complaints.append(message.text))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on("request", lambda request: visit.hosts.add(request.url.split("/")[2]))
        visit.page.goto(url)
        return visit

    yield open_tab
    for context in contexts:
        context.close()
