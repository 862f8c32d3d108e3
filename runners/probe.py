"""Says what a side's Python brings. Standard library only, and run by any Python from 3.9 on.

    python -I runners/probe.py [FOLDER] > ..., and a line: ANSWER and one JSON object

FOLDER holds the packages to look at; an installed project is one that came from a folder or a
repository. Its modules are what it declares, or else the top of what it put there. An editable one
may put nothing there but a path.
"""

import importlib.metadata
import importlib.util
import json
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Optional
from urllib.parse import unquote, urlsplit

ANSWER = "paceline-probe: "
_NAMED = ("torch", "numpy", "triton")


def main() -> None:
    """Print the answer on a line of its own: the side's own code may print, too."""
    projects = list(_projects(sys.argv[1:]))
    origins: dict[str, Optional[str]] = {}
    for distribution, source in projects:
        origins.update(_origins(distribution, source))
    answer = {
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "search_path": [folder for folder in sys.path if folder.endswith("-packages")],
        "origins": origins,
        "from_folders": [
            distribution.metadata["Name"]
            for distribution, source in projects
            if "dir_info" in source
        ],
    }
    print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)


def _versions() -> Iterator[tuple[str, str]]:
    for name in _NAMED:
        with suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _projects(folders: list[str]) -> Iterator[tuple[importlib.metadata.Distribution, Any]]:
    """Distributions that came from no index, each with where it came from (PEP 610)."""
    for distribution in importlib.metadata.distributions(path=folders):
        text = distribution.read_text("direct_url.json")
        if text is not None:
            yield distribution, json.loads(text)


def _origins(
    distribution: importlib.metadata.Distribution, source: Any
) -> Iterator[tuple[str, Optional[str]]]:
    """Where an editable project lies, and where each module of a project is found."""
    if source.get("dir_info", {}).get("editable"):
        yield distribution.metadata["Name"], unquote(urlsplit(source["url"]).path)
    declared = (distribution.read_text("top_level.txt") or "").split()
    files = [file for file in distribution.files or () if file.suffix == ".py"]
    for name in set(declared or [file.parts[0].replace(".py", "") for file in files]):
        if name.isidentifier():
            spec = importlib.util.find_spec(name)
            folders = list(spec.submodule_search_locations or ()) if spec else []
            yield name, (spec.origin if spec else None) or (folders[0] if folders else None)


if __name__ == "__main__":
    main()
