"""What stands between the server and the routes, in its order."""

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from service.api import errors, events
from service.api.loopback import Loopback
from service.api.manners import Head, Limits, RequestIds
from service.api.monitoring import Monitor
from service.api.requests import Watch

_COMPRESSED_BYTES = 2**10


def install(app: FastAPI, monitor: Monitor, *, is_standalone: bool) -> None:
    """Put it all into an application, the innermost first.

    Whatever refuses a request stands inside the one who watches, whose lines have the id that the
    outermost gives.
    """
    errors.install(app)
    events.install(app)
    app.state.monitor = monitor
    if is_standalone:
        app.add_middleware(Loopback)
    app.add_middleware(Limits)
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED_BYTES, compresslevel=6)
    app.add_middleware(Watch, routed=app, monitor=monitor)
    app.add_middleware(Head)
    app.add_middleware(RequestIds)
