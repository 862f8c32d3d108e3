"""Standalone asks for no token, so neither another host nor another site's page may act here."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response

from service.api.errors import problem

_HOSTS = ("127.0.0.1", "localhost", "::1")


def install(app: FastAPI) -> None:
    """Refuse requests that were not addressed to this machine, or come from another origin.

    `Host` stops names rebound to 127.0.0.1, `Origin` stops forms on pages of other sites and of
    other ports of this machine.
    """
    app.middleware("http")(_refuse_foreign)


async def _refuse_foreign(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if not _is_ours(host):
        detail = f"This service answers on this machine only, not as {host!r}."
        return problem(HTTPStatus.BAD_REQUEST, detail)
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return problem(HTTPStatus.FORBIDDEN, f"Requests from the origin {origin} are refused.")
    return await call_next(request)


def _is_ours(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in _HOSTS
    except ValueError:
        return False
