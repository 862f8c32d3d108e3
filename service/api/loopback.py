"""Standalone asks for no token, so neither another host nor another site's page may act here."""

from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.errors import Problem, problem
from service.config import LOOPBACK


class Loopback:
    """`Host` stops names rebound to 127.0.0.1, `Origin` stops forms on pages of other sites and of
    other ports of this machine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _refusal(headers: Headers) -> Problem | None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _is_ours(host):
        detail = f"This service answers on this machine only, not as {host!r}."
        return problem(HTTPStatus.BAD_REQUEST, detail)
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return problem(HTTPStatus.FORBIDDEN, f"Requests from the origin {origin} are refused.")
    return None


def _is_ours(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False
