"""What holds for every request, whatever it asks for: its id, its size, HEAD."""

import re
from http import HTTPStatus
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.errors import problem
from service.logs import request_id

MAX_BODY_BYTES = 2**20
MAX_URL_BYTES = 2**13
HEAD = "paceline.head"
_TOO_LARGE = f"A body may have {MAX_BODY_BYTES} bytes."
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Gives every request an id, the caller's where it sends a proper one, and tells it back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        asked = Headers(scope=scope).get("x-request-id", "")
        ident = asked if _REQUEST_ID.fullmatch(asked) else uuid4().hex
        # Never reset: the server gives each request a context, and errors are told after this.
        request_id.set(ident)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = ident
            await send(message)

        return await self._app(scope, receive, send_with_id)


class Head:
    """Answers HEAD as GET without the body; `scope[HEAD]` tells a stream that it may end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        scope = {**scope, "method": "GET", HEAD: True}
        return await self._app(scope, receive, send_without_body)


class Limits:
    """Refuses addresses and bodies that are too long, the latter also where no length is told."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope.get("raw_path") or scope["path"]
        if len(path) + len(scope["query_string"]) > MAX_URL_BYTES:
            detail = f"A path with its query may have {MAX_URL_BYTES} bytes."
            return await problem(HTTPStatus.REQUEST_URI_TOO_LONG, detail)(scope, receive, send)
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > MAX_BODY_BYTES:
            refusal = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
            return await refusal(scope, receive, send)
        num_bytes = 0

        async def receive_counted() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > MAX_BODY_BYTES:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
            return message

        return await self._app(scope, receive_counted, send)
