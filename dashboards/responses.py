"""Pages as HTTP responses, and what a browser is answered where the API would send a problem."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.responses import Response

from dashboards.templating import ROOT, render
from service.api.access import Visitor
from service.errors import Forbidden, NotFound, Refused, Unauthenticated

_HEADERS = {
    # Plotly sets styles from its script; everything else comes from files of ours.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "private, no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def page(
    template: str,
    values: Mapping[str, Any],
    *,
    visitor: Visitor | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    """A template as a response."""
    html = render(template, values, visitor=visitor)
    return HTMLResponse(html, status_code=status, headers=_HEADERS)


def see(path: str) -> Response:
    """Leads a browser on to a page, by GET, also from a form."""
    return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)


class PageRoute(APIRoute):
    """Answers what cannot be found or may not be done as a page, where the API sends a problem.

    A program that sends a token is told of a refusal as the API tells it.
    """

    def get_route_handler(self) -> Callable[..., Any]:
        handle = super().get_route_handler()

        async def page_or_refusal(request: Request) -> Response:
            try:
                return await handle(request)
            except NotFound as error:
                return _not_found(error.kind, error.ident)
            except (RequestValidationError, Refused):
                return _not_found("page", request.url.path)
            except Unauthenticated:
                if _is_program(request):
                    raise
                return see(_login(request))
            except Forbidden as error:
                if _is_program(request):
                    raise
                values = {"detail": str(error)}
                return page("forbidden.html", values, status=HTTPStatus.FORBIDDEN)

        return page_or_refusal


def _is_program(request: Request) -> bool:
    """Whether a request brings a token, as no browser does by itself."""
    return request.headers.get("authorization", "").lower().startswith("bearer ")


def _not_found(kind: str, ident: str) -> Response:
    values = {"kind": kind, "ident": ident}
    return page("not_found.html", values, status=HTTPStatus.NOT_FOUND)


def _login(request: Request) -> str:
    """The login page, which leads back; a form that was sent is not sent again."""
    if request.method != "GET":
        return f"{ROOT}/login"
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"{ROOT}/login?{urlencode({'next': asked})}"
