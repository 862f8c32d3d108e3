"""Static files, gzip-compressed once, under URLs that change with their content.

plotly.js is taken from the installed plotly wheel: no CDN, so pages work behind an air gap.
"""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import plotly

_FOLDER = Path(__file__).with_name("static")
_SOURCES = {
    "paceline.css": (_FOLDER / "paceline.css", "text/css; charset=utf-8"),
    "paceline.js": (_FOLDER / "paceline.js", "text/javascript; charset=utf-8"),
    "icon.svg": (_FOLDER / "icon.svg", "image/svg+xml"),
    "plotly.min.js": (
        Path(plotly.__file__).parent / "package_data" / "plotly.min.js",
        "text/javascript; charset=utf-8",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file as it is served; `version` is a digest of its content."""

    version: str
    media_type: str
    content: bytes
    gzipped: bytes


@cache
def asset(name: str) -> Asset | None:
    """The asset of that name; None where there is none."""
    if name not in _SOURCES:
        return None
    path, media_type = _SOURCES[name]
    content = path.read_bytes()
    return Asset(
        version=hashlib.sha256(content).hexdigest()[:16],
        media_type=media_type,
        content=content,
        gzipped=gzip.compress(content, 6, mtime=0),
    )


def path(name: str) -> str:
    """Where an asset is served, below the root of the pages."""
    found = asset(name)
    assert found is not None, name
    return f"/static/{found.version}/{name}"


def text(name: str) -> str:
    """An asset as text, to stand inside a document that must need no other file."""
    found = asset(name)
    assert found is not None, name
    return found.content.decode()
