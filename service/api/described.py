"""How /openapi.json describes the answers of a route: by an example, and as problems."""

import json
from http import HTTPStatus
from typing import Any

from fastapi.encoders import jsonable_encoder

Responses = dict[int | str, dict[str, Any]]

# What a body may be refused for, what a named thing, and how a list leads on.
REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
UNKNOWN = (HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)
NEXT = 'The next part of the list as `<path>; rel="next"`; absent at the end.'

_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457. `errors` names each field that is wrong by JSON pointer.",
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened and what to do about it."},
        "request_id": {"type": "string", "description": "As in X-Request-Id and in the log."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
                "required": ["pointer", "detail"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "request_id"],
}


def problems(*statuses: HTTPStatus, is_open: bool = False) -> Responses:
    """What may go wrong: these, which a caller can mend, and anything else.

    Who may ask is always looked at, except where everybody may.
    """
    who = () if is_open else (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    named: Responses = {status: _problem(status.phrase, status) for status in (*who, *statuses)}
    default = _problem("Any other error.", HTTPStatus.INTERNAL_SERVER_ERROR)
    return named | {"default": default}


def example(status: HTTPStatus, value: object, **headers: str) -> Responses:
    """The answer of a route that did what was asked, and headers with what they tell."""
    content = {"application/json": {"example": jsonable_encoder(value)}}
    described = {
        name.replace("_", "-"): {"description": text, "schema": {"type": "string"}}
        for name, text in headers.items()
    }
    return {status: {"content": content, "headers": described}}


def stream_example(progress: object) -> Responses:
    """The answer of a route that sends events, by one of them."""
    data = json.dumps(jsonable_encoder(progress))
    text = f"event: progress\ndata: {data}\nid: running-1-2-0\nretry: 2000\n\n"
    content = {"text/event-stream": {"example": text}}
    return {HTTPStatus.OK: {"description": "Events, as they happen.", "content": content}}


def _problem(description: str, status: HTTPStatus) -> dict[str, Any]:
    shown = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status,
        "detail": "A sentence that names what happened and the remedy.",
        "request_id": "5ac7a6a4c2a54d7c9f4b4e3a3a5d9c4e",
    }
    content = {"application/problem+json": {"schema": _PROBLEM, "example": shown}}
    return {"description": description, "content": content}
