"""A stored log or record file as text."""

import re
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from starlette.responses import Response

from service.api.deps import ArtifactsDep, SessionDep
from service.db import results
from service.errors import NotFound

PATH = "/artifacts/{artifact_id}"
TEMPLATE = "artifact.html"

_LIMIT_BYTES = 2**20
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True)
class Context:
    """The end of a file; `is_whole` where that is all of it."""

    artifact_id: UUID
    run_id: UUID
    name: str
    num_bytes: int
    text: str
    is_whole: bool


def build(
    session: SessionDep, artifact_id: UUID, artifacts: ArtifactsDep, raw: bool = False
) -> Context | Response:
    """The file as a page or, `raw`, to save. Raises NotFound."""
    row = results.artifact(session, artifact_id)
    try:
        content = artifacts.read(row.path)
    except FileNotFoundError as error:
        raise NotFound("stored file", row.name) from error
    if raw:
        return download(row.name, content)
    return Context(
        artifact_id=row.id,
        run_id=row.run_id,
        name=row.name,
        num_bytes=len(content),
        text=readable(content[-_LIMIT_BYTES:]),
        is_whole=len(content) <= _LIMIT_BYTES,
    )


def readable(content: bytes) -> str:
    """Text of a log: without colour codes, and of a line redrawn in place only its last state."""
    lines = content.decode(errors="replace").replace("\r\n", "\n").split("\n")
    return "\n".join(_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in lines)


def download(name: str, content: bytes) -> Response:
    """The bytes as a text file to save; no browser may take them for a document."""
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return Response(content, media_type="text/plain; charset=utf-8", headers=headers)
