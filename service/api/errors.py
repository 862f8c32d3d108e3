"""RFC 9457: every error leaves as application/problem+json, FastAPI's own included."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from service.errors import (
    Conflict,
    Forbidden,
    NotFound,
    PacelineError,
    Refused,
    Unauthenticated,
)

logger = logging.getLogger(__name__)

_STATUS: dict[type[PacelineError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Refused: HTTPStatus.UNPROCESSABLE_ENTITY,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
}


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
    body |= {"detail": detail} | ({"errors": list(errors)} if errors else {})
    return Problem(body, status_code=status, headers=headers)


def pointer(path: Sequence[str | int]) -> str:
    """JSON pointer to a field of the body (RFC 6901), or to a query's or path's parameter."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _place(item: dict[str, Any]) -> str:
    """Pointer to what is wrong; the whole body where it is no JSON."""
    return pointer([] if item["type"] == "json_invalid" else item["loc"][1:])


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
        challenge = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
        return problem(status, str(error), errors=fields, headers=challenge)

    @app.exception_handler(RequestValidationError)
    def _validation(_request: Request, error: RequestValidationError) -> Problem:
        fields = [{"pointer": _place(item), "detail": item["msg"]} for item in error.errors()]
        names = ", ".join(field["pointer"] or "its top" for field in fields)
        return problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"The request is not valid at {names}.", errors=fields
        )

    @app.exception_handler(HTTPException)
    def _http(_request: Request, error: HTTPException) -> Problem:
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, str(error.detail), headers=headers)

    @app.exception_handler(Exception)
    def _unexpected(_request: Request, error: Exception) -> Problem:
        detail = "Paceline itself failed; the service's log has the traceback."
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
