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
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.lock import alone
from runners.origin import assert_origin, assert_shareable, site_packages, software
from runners.shell import Shell
from service.domain import Failure, FailureReason
from service.errors import MeasurementFailed
from service.manifest import Setup

_READY = ".ready"
_INCLUDE = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Installation:
    """An interpreter ready to run a side, and the software it brings."""

    python: Path
    software: dict[str, Any]


def install(
    setup: Setup, worktree: Path, environments: Path, side_key: str, shell: Shell
) -> Installation:
    """Prepare a side's Python. Raises MeasurementFailed with the log where a step fails."""
    python = Path(sys.executable)
    if setup.dependencies:
        python = _dependencies(setup.dependencies, worktree, environments, python, shell)
    own_packages = None
    if setup.install:
        folder = environments / f"side-{side_key[:20]}"
        python = _project(setup.install, worktree, folder, python, shell)
        own_packages = site_packages(python)
    brought = software(python, own_packages, shell)
    assert_origin(brought["origins"], [worktree, python.parent.parent])
    kept = {name: brought[name] for name in ("python", "versions")}
    return Installation(python=python, software=kept)


def _dependencies(
    files: Sequence[str], worktree: Path, environments: Path, base: Path, shell: Shell
) -> Path:
    """Environment with the declared requirement files, made once per their content."""
    digest = hashlib.sha256(f"{sys.version} {base}".encode())
    for content in _requirements(worktree, files):
        digest.update(hashlib.sha256(content).digest())
    folder = environments / f"dependencies-{digest.hexdigest()[:20]}"

    def fill(python: Path) -> None:
        requirements = [part for name in files for part in ("-r", name)]
        shell.run(["pip", "install", *requirements], python, worktree, "setup.dependencies")
        assert_shareable(python, shell)

    return _environment(folder, base, fill, shell)


def _requirements(worktree: Path, names: Sequence[str]) -> list[bytes]:
    """Contents of requirement files and of those they include."""
    root, seen = worktree.resolve(), dict[Path, bytes]()
    todo = [(worktree / name).resolve() for name in names]
    while todo:
        path = todo.pop()
        if not path.is_relative_to(root) or not path.is_file():
            name = os.path.relpath(path, root)
            detail = f"setup.dependencies leads to {name!r}, which is no file of this revision."
            raise MeasurementFailed(Failure(reason=FailureReason.SETUP_FAILED, detail=detail))
        if path not in seen:
            seen[path] = path.read_bytes()
            included = _INCLUDE.findall(seen[path].decode(errors="replace"))
            todo += [(path.parent / name).resolve() for name in included if "://" not in name]
    return list(seen.values())


def _project(
    commands: Sequence[str], worktree: Path, folder: Path, base: Path, shell: Shell
) -> Path:
    """Environment with the side's own project, for as long as its worktree is there."""

    def fill(python: Path) -> None:
        for number, command in enumerate(commands):
            field = f"setup.install.{number}"
            try:
                program, *arguments = shlex.split(command)
            except ValueError as error:
                detail = f"{field}: {command!r} is no command: {error}"
                raise MeasurementFailed(
                    Failure(reason=FailureReason.SETUP_FAILED, detail=detail)
                ) from error
            shell.run([program, *arguments], python, worktree, field)

    # What was built in place lies in the worktree, which git dates when it makes it.
    git = worktree / ".git"
    stamp = str(git.stat().st_mtime_ns) if git.exists() else ""
    return _environment(folder, base, fill, shell, stamp)


def _environment(
    folder: Path, base: Path, fill: Callable[[Path], None], shell: Shell, stamp: str = ""
) -> Path:
    """Python of the environment at `folder`, made and filled unless it is complete, and of `stamp`.

    It is the account's while it is filled, by commands that are not ours, and ours from then on.
    It has a `pip` of its own, for commands and scripts that call it by name: the next one on the
    path would install into the worker's environment.
    """
    # Whether it is complete is told beside it: within, it may have been written by others.
    python, ready = folder / "bin" / "python", folder.with_name(f"{folder.name}{_READY}")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--no-input"]
    with alone(folder):
        if not ready.exists() or ready.read_text() != stamp:
            ready.unlink(missing_ok=True)
            if folder.exists():
                shutil.rmtree(folder)
            venv.create(folder, symlinks=True)
            below = "\n".join(software(base, None, shell)["search_path"])
            (site_packages(python) / "paceline-base.pth").write_text(below + "\n")
            for name in ("pip", "pip3"):
                script = folder / "bin" / name
                script.write_text(f'#!/bin/sh\nexec {shlex.join(pip)} "$@"\n')
                script.chmod(0o755)
            shell.account.give(folder)
            fill(python)
            shell.account.take_back(folder)
            ready.write_text(stamp)
    return python
