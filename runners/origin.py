"""What a side's Python brings, and whether its modules are the side's own."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners.variables import of_ours
from service.domain import Failure, FailureReason
from service.errors import MeasurementFailed

_TIMEOUT_S = 600.0

# Printed by the side's own interpreter: its versions, and where each installed project lies. A
# project is what was installed from a folder or a repository; its modules are what it declares, or
# else the top of what it put there. An editable one may put nothing there but a path.
_PROBE = """
import importlib.metadata as metadata, importlib.util, json, platform, sys
from urllib.parse import unquote, urlsplit
versions = {}
for name in ("torch", "numpy", "triton"):
    try: versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError: pass
origins = {}
for distribution in metadata.distributions(path=[sys.argv[1]] if sys.argv[1] else []):
    text = distribution.read_text("direct_url.json")
    if text is None: continue
    source = json.loads(text)
    if source.get("dir_info", {}).get("editable"):
        origins[distribution.metadata["Name"]] = unquote(urlsplit(source["url"]).path)
    declared = (distribution.read_text("top_level.txt") or "").split()
    files = [file for file in distribution.files or () if file.suffix == ".py"]
    for name in set(declared or [file.parts[0].removesuffix(".py") for file in files]):
        if not name.isidentifier(): continue
        spec = importlib.util.find_spec(name)
        if spec is None: origins[name] = None
        else: origins[name] = spec.origin or list(spec.submodule_search_locations or [None])[0]
print(json.dumps({"python": platform.python_version(), "versions": versions, "origins": origins}))
"""

# Names of what was installed from a folder rather than from an index or a file.
_FROM_FOLDERS = """
import importlib.metadata as metadata, json, sys
for distribution in metadata.distributions(path=[sys.argv[1]]):
    if "dir_info" in json.loads(distribution.read_text("direct_url.json") or "{}"):
        print(distribution.metadata["Name"])
"""


def probe(python: Path, own_packages: str) -> dict[str, Any]:
    """Versions a side brings, and in `origins` where the projects in `own_packages` lie."""
    output = ask([str(python), "-c", _PROBE, own_packages])
    software: dict[str, Any] = json.loads(output.splitlines()[-1])
    return software


def assert_shareable(python: Path) -> None:
    """Dependencies serve every side that declares them, so they may hold no side's own folder."""
    names = ask([str(python), "-c", _FROM_FOLDERS, str(site_packages(python))]).splitlines()
    if names:
        detail = (
            f"setup.dependencies installs {', '.join(names)} from a folder of this revision, but "
            "other revisions share it. Install that in setup.install."
        )
        raise MeasurementFailed(Failure(reason=FailureReason.WRONG_ORIGIN, detail=detail))


def assert_origin(origins: dict[str, str | None], allowed: Sequence[Path]) -> None:
    """Every installed module must come from this side; another side's code must not be measured."""
    roots = [root.resolve() for root in allowed]
    for name, origin in origins.items():
        if origin is None or not any(Path(origin).resolve().is_relative_to(root) for root in roots):
            detail = (
                f"The installed module {name!r} comes from {origin}, outside this side's worktree "
                "and environment. Install it with --no-deps and without a fixed path."
            )
            raise MeasurementFailed(Failure(reason=FailureReason.WRONG_ORIGIN, detail=detail))


def site_packages(python: Path) -> Path:
    """Where the environment of `python` keeps what is installed into it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return python.parent.parent / "lib" / version / "site-packages"


def ask(argv: Sequence[str]) -> str:
    """Output of a short command of ours."""
    try:
        result = subprocess.run(
            argv,
            cwd="/",
            env=of_ours(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        log = f"{getattr(error, 'stdout', '') or ''}{getattr(error, 'stderr', '') or ''}"
        detail = f"setup: {shlex.join(argv[:3])} failed: {error}"
        raise MeasurementFailed(
            Failure(reason=FailureReason.SETUP_FAILED, detail=detail), log
        ) from error
    return result.stdout
