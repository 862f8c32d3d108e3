"""What a side's Python brings, and whether its modules are the side's own."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runners import probe
from runners.shell import Shell
from service.domain import Failure, FailureReason
from service.errors import MeasurementFailed

_PROBE = Path(probe.__file__)


def software(python: Path, own_packages: Path | None, shell: Shell) -> dict[str, Any]:
    """What a side's Python brings: see probe.py, which looks at the projects in `own_packages`.

    A Python runs what was installed into it as it starts, hence the shell.
    """
    argv = [str(python), "-I", str(_PROBE), *([str(own_packages)] if own_packages else [])]
    output = shell.ask(argv)
    for line in output.splitlines():
        if line.startswith(probe.ANSWER):
            answer: dict[str, Any] = json.loads(line.removeprefix(probe.ANSWER))
            return answer
    detail = f"setup: {python} did not say what it brings; the log has what it printed."
    raise MeasurementFailed(Failure(reason=FailureReason.SETUP_FAILED, detail=detail), output)


def assert_shareable(python: Path, shell: Shell) -> None:
    """Dependencies serve every side that declares them, so they may hold no side's own folder."""
    names = software(python, site_packages(python), shell)["from_folders"]
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
