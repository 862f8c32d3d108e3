"""Every request is counted, timed and logged, once, under its route's template."""

import logging
import time
from collections.abc import Mapping

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.monitoring import Monitor

logger = logging.getLogger(__name__)

_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_QUIET = {"/healthz", "/readyz", "/metrics"}  # asked for every few seconds


class Watch:
    """Middleware that tells the monitor and the log how each request went."""

    def __init__(self, app: ASGIApp, *, routed: FastAPI, monitor: Monitor) -> None:
        self._app, self._routed, self._monitor = app, routed, monitor
        self._templates: Mapping[object, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; one that ends in an exception, or in nothing, counts as a 500."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, started, answered = 500, time.perf_counter(), None

        async def note_status(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.perf_counter()
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        finally:
            # A stream goes on for minutes; what its caller waited for is its beginning.
            self._answered(scope, status, (answered or time.perf_counter()) - started)

    def _answered(self, scope: Scope, status: int, duration_s: float) -> None:
        # Whatever a client makes up, a method or a path, must not become a label.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = self._template(scope)
        self._monitor.answered(method=method, route=route, status=status, duration_s=duration_s)
        level = logging.DEBUG if route in _QUIET else logging.INFO
        logger.log(level, "%s %s %d in %.1f ms", method, route, status, duration_s * 1e3)

    def _template(self, scope: Scope) -> str:
        """The route's path with its parameters' names; `unmatched` where no route was found.

        The scope holds the route as its router knows it, without the prefix it is included under.
        """
        if not self._templates:
            self._templates = templates(self._routed)
        return self._templates.get(scope.get("endpoint"), "unmatched")


def templates(app: FastAPI) -> Mapping[object, str]:
    """The full path of each endpoint's route."""
    return {
        route.endpoint: route.path
        for route in iter_route_contexts(app.routes)
        if route.endpoint is not None and route.path is not None
    }
