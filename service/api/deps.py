"""What routes are given, and what they all ask of a request."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from sqlalchemy.orm import Session

from service.artifacts import ArtifactStore
from service.db.session import transaction

_JSON = "application/json"
_JSON_BODY = re.compile(r"application/([\w.-]+\+)?json\s*(;.*)?", re.IGNORECASE)


def get_session(request: Request) -> Iterator[Session]:
    """A session, committed before the response is sent; its messages leave after that."""
    with transaction(request.app.state.sessions, request.app.state.send) as session:
        yield session


async def json_only(request: Request) -> None:
    """Refuse a body that is not JSON, and a caller who would not read JSON."""
    accepted = request.headers.get("accept") or "*/*"
    if not _accepts_json(accepted):
        detail = f"The answer is {_JSON}, which `Accept: {accepted}` leaves out."
        raise HTTPException(HTTPStatus.NOT_ACCEPTABLE, detail)
    kind = request.headers.get("content-type", "")
    if _has_body(request) and not _JSON_BODY.fullmatch(kind):
        detail = f"The body must be {_JSON}, and be called so in Content-Type, not {kind!r}."
        headers = {"Accept": _JSON}
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers)


def get_artifacts(request: Request) -> ArtifactStore:
    """The artifact store."""
    store: ArtifactStore = request.app.state.artifacts
    return store


# scope="function": otherwise the commit would follow the response, and could fail unseen.
SessionDep = Annotated[Session, Depends(get_session, scope="function")]
ArtifactsDep = Annotated[ArtifactStore, Depends(get_artifacts)]
JSON_ONLY = Depends(json_only)


def _has_body(request: Request) -> bool:
    is_chunked = "transfer-encoding" in request.headers
    return is_chunked or request.headers.get("content-length", "0") != "0"


def _accepts_json(accepted: str) -> bool:
    """Whether an Accept header allows JSON: the most exact range decides (RFC 9110, 12.5.1)."""
    weights: dict[str, float] = {}
    for part in accepted.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = next((item[2:] for item in parameters if item.startswith("q=")), "1")
        weights[name] = 0.0 if re.fullmatch(r"0(\.0*)?", weight) else 1.0
    ranges = (_JSON, "application/*", "*/*")
    return next((weights[name] for name in ranges if name in weights), 0.0) > 0
