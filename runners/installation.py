"""A side's Python: the cluster's torch below, cached dependencies above, the project on top.

    base          the interpreter of the cluster, with its torch
    dependencies  one environment per content of the declared files, shared between sides
    project       one environment per side, filled by the side's own install commands

Layers see the one below through a path file, so a side that pins its own torch gets it: what a
side's setup brings belongs to the side.
"""

import hashlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from runners.guard import Order
from runners.guarded import Guarded
from runners.lock import alone
from runners.origin import (
    ask,
    assert_origin,
    assert_shareable,
    clean_environment,
    probe,
    site_packages,
)
from runners.spec import TRIAL_VARIABLE
from service.domain import FailureReason
from service.errors import MeasurementFailed
from service.manifest import Setup

_TIMEOUT_S = 3600.0
_KILL_GRACE_S = 5.0
_POLL_S = 0.05
_READY = "paceline-ready"
_INCLUDE = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)", re.MULTILINE)

Check = Callable[[], None]  # raises when the worker must stop


@dataclass(frozen=True, kw_only=True)
class Installation:
    """An interpreter ready to run a side, and the software it brings."""

    python: Path
    software: dict[str, Any]


def install(
    setup: Setup, worktree: Path, environments: Path, side_key: str, check: Check
) -> Installation:
    """Prepare a side's Python. Raises MeasurementFailed with the log where a step fails.

    The commands run under a guard: nothing they start outlives them, and `check` may end them.
    """
    python = Path(sys.executable)
    if setup.dependencies:
        python = _dependencies(setup.dependencies, worktree, environments, python, check)
    own_packages = ""
    if setup.install:
        folder = environments / f"side-{side_key[:20]}"
        python = _project(setup.install, worktree, folder, python, check)
        own_packages = str(site_packages(python))
    software = probe(python, own_packages)
    assert_origin(software.pop("origins"), [worktree, python.parent.parent])
    return Installation(python=python, software=software)


def _dependencies(
    files: Sequence[str], worktree: Path, environments: Path, base: Path, check: Check
) -> Path:
    """Environment with the declared requirement files, made once per their content."""
    digest = hashlib.sha256(f"{sys.version} {base}".encode())
    for content in _requirements(worktree, files):
        digest.update(hashlib.sha256(content).digest())
    folder = environments / f"dependencies-{digest.hexdigest()[:20]}"

    def fill(python: Path) -> None:
        requirements = [part for name in files for part in ("-r", name)]
        _run(["pip", "install", *requirements], python, worktree, "setup.dependencies", check)
        assert_shareable(python)

    return _environment(folder, base, fill)


def _requirements(worktree: Path, names: Sequence[str]) -> list[bytes]:
    """Contents of requirement files and of those they include."""
    root, seen = worktree.resolve(), dict[Path, bytes]()
    todo = [(worktree / name).resolve() for name in names]
    while todo:
        path = todo.pop()
        if not path.is_relative_to(root) or not path.is_file():
            name = os.path.relpath(path, root)
            detail = f"setup.dependencies leads to {name!r}, which is no file of this revision."
            raise MeasurementFailed(FailureReason.SETUP_FAILED, detail)
        if path not in seen:
            seen[path] = path.read_bytes()
            included = _INCLUDE.findall(seen[path].decode(errors="replace"))
            todo += [(path.parent / name).resolve() for name in included if "://" not in name]
    return list(seen.values())


def _project(
    commands: Sequence[str], worktree: Path, folder: Path, base: Path, check: Check
) -> Path:
    """Environment with the side's own project, for as long as its worktree is there."""

    def fill(python: Path) -> None:
        for number, command in enumerate(commands):
            field = f"setup.install.{number}"
            try:
                program, *arguments = shlex.split(command)
            except ValueError as error:
                detail = f"{field}: {command!r} is no command: {error}"
                raise MeasurementFailed(FailureReason.SETUP_FAILED, detail) from error
            _run([program, *arguments], python, worktree, field, check)

    # What was built in place lies in the worktree, which git dates when it makes it.
    git = worktree / ".git"
    return _environment(folder, base, fill, str(git.stat().st_mtime_ns) if git.exists() else "")


def _environment(folder: Path, base: Path, fill: Callable[[Path], None], stamp: str = "") -> Path:
    """Python of the environment at `folder`, made and filled unless it is complete, and of `stamp`.

    It has a `pip` of its own, for commands and scripts that call it by name: the next one on the
    path would install into the worker's environment.
    """
    python, ready = folder / "bin" / "python", folder / _READY
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--no-input"]
    with alone(folder):
        if not ready.exists() or ready.read_text() != stamp:
            shutil.rmtree(folder, ignore_errors=True)
            ask([str(base), "-m", "venv", "--without-pip", str(folder)])
            below = "\n".join(_search_path(base))
            (site_packages(python) / "paceline-base.pth").write_text(below + "\n")
            for name in ("pip", "pip3"):
                script = folder / "bin" / name
                script.write_text(f'#!/bin/sh\nexec {shlex.join(pip)} "$@"\n')
                script.chmod(0o755)
            fill(python)
            ready.write_text(stamp)
    return python


def _search_path(python: Path) -> list[str]:
    """Folders in which `python` finds installed packages, nearest first."""
    code = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    return ask([str(python), "-I", "-c", code]).splitlines()


def _run(argv: Sequence[str], python: Path, working_dir: Path, field: str, check: Check) -> None:
    """Run a command of the project under a guard, with the side's environment activated."""
    tag = str(uuid4())
    environment = clean_environment()
    environment |= {
        TRIAL_VARIABLE: tag,
        "VIRTUAL_ENV": str(python.parent.parent),
        "PATH": f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
    }
    with tempfile.NamedTemporaryFile(prefix="paceline-", suffix=".log") as log:
        command = Guarded(
            Order(
                argv=list(argv),
                environment=environment,
                working_dir=str(working_dir),
                log=log.name,
                tag=f"{TRIAL_VARIABLE}={tag}",
                deadline_s=_TIMEOUT_S,
                watch="",
                start_s=0.0,
                stall_s=0.0,
                kill_grace_s=_KILL_GRACE_S,
            )
        )
        try:
            while (outcome := command.poll()) is None:
                check()
                time.sleep(_POLL_S)
        finally:
            command.cancel()
        if outcome.ended != "exited" or outcome.exit_code != 0:
            how = outcome.detail or f"{outcome.ended} with {outcome.exit_code}"
            detail = f"{field}: {shlex.join(argv)} failed: {how}"
            output = Path(log.name).read_text(errors="replace")
            raise MeasurementFailed(FailureReason.SETUP_FAILED, detail, output)
