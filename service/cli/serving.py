"""Runs an application on uvicorn, as `paceline up` and `paceline api` do."""

from contextlib import suppress
from types import FrameType
from typing import Any

import typer
import uvicorn
from fastapi import FastAPI

from service.cli.exit_codes import ExitCode

# Time for open requests after SIGTERM; whoever stops the service must wait a little longer.
DRAIN_S = 20


class _Server(uvicorn.Server):
    """A server that tells its streams of a signal: it waits for them, and they have no end."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = app.state.stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping.set()
        super().handle_exit(sig, frame)


def serve(app: FastAPI, **options: Any) -> None:
    """Serve until SIGTERM or Ctrl-C; open requests are given a while. `options` are uvicorn's."""
    config = uvicorn.Config(
        app,
        timeout_graceful_shutdown=DRAIN_S,
        log_config=None,
        access_log=False,  # service/api/requests.py logs each request
        **options,
    )
    server = _Server(app, config)
    with suppress(KeyboardInterrupt):  # Ctrl-C, which uvicorn raises again when it has ended
        server.run()
    if not server.started:
        raise typer.Exit(ExitCode.RUN_FAILED)
