"""RFC 9457: every error leaves as application/problem+json, the framework's own included."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service.errors import (
    Busy,
    Conflict,
    Forbidden,
    NotFound,
    PacelineError,
    Refused,
    Unauthenticated,
)
from service.logs import request_id

logger = logging.getLogger(__name__)

_STATUS: dict[type[PacelineError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Busy: HTTPStatus.CONFLICT,
    Refused: HTTPStatus.UNPROCESSABLE_ENTITY,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
}
_RETRY_AFTER_S = 1
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class Problem(JSONResponse):
    """A problem document."""

    media_type = "application/problem+json"


def problem(
    status: int,
    detail: str,
    *,
    errors: Sequence[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
) -> Problem:
    """Problem of a status; `errors` name each offending field by JSON pointer."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body |= {"detail": detail, "request_id": request_id.get()}
    body |= {"errors": list(errors)} if errors else {}
    return Problem(body, status_code=status, headers=headers)


def pointer(path: Sequence[str | int]) -> str:
    """JSON pointer to a field of the body (RFC 6901), or to a query's or path's parameter."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _place(item: dict[str, Any]) -> str:
    """Pointer to what is wrong; the whole body where it is no JSON."""
    return pointer([] if item["type"] == "json_invalid" else item["loc"][1:])


def _allowed(request: Request) -> str:
    """Methods that are served at the request's path, as the header Allow names them."""
    scope, routes = request.scope, request.app.routes
    served = {
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    }
    return ", ".join(sorted(served | {"HEAD"} if "GET" in served else served))


def install(app: FastAPI) -> None:
    """Map every error an application can raise."""

    @app.exception_handler(PacelineError)
    def _ours(_request: Request, error: PacelineError) -> Problem:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), None)
        if status is None:
            raise error
        fields = []
        if isinstance(error, Refused):
            fields = [{"pointer": pointer(error.field.split(".")), "detail": error.detail}]
        headers = {"Retry-After": str(_RETRY_AFTER_S)} if isinstance(error, Busy) else None
        if isinstance(error, Unauthenticated):
            headers = {"WWW-Authenticate": "Bearer"}
        return problem(status, str(error), errors=fields, headers=headers)

    @app.exception_handler(RequestValidationError)
    def _validation(_request: Request, error: RequestValidationError) -> Problem:
        fields = [{"pointer": _place(item), "detail": item["msg"]} for item in error.errors()]
        names = ", ".join(field["pointer"] or "its top" for field in fields)
        return problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"The request is not valid at {names}.", errors=fields
        )

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> Problem:
        detail, headers = str(error.detail), dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = _allowed(request)
            detail = f"{request.url.path} serves {headers['Allow']}, not {request.method}."
        elif detail == HTTPStatus.NOT_FOUND.phrase:
            detail = f"Nothing is served at {request.url.path}; /openapi.json tells what is."
        return problem(error.status_code, detail, headers=headers)

    @app.exception_handler(Exception)
    def _unexpected(_request: Request, error: Exception) -> Problem:
        detail = "Paceline itself failed; the service's log has the traceback under this id."
        # This one is answered outside of what puts the id on every other response.
        headers = {"X-Request-Id": request_id.get()}
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail, headers=headers)
