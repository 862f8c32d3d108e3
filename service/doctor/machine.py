"""Checks on a machine that measures: git, torch, what the guard asks of Linux."""

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from service.doctor.finding import Finding, failure, ok

_PR_GET_CHILD_SUBREAPER = 37
_GIT = (2, 17)
_TIMEOUT_S = 120.0  # importing torch takes its time on a cold disk


def git() -> Finding:
    """git is there and new enough."""
    program = shutil.which("git")
    if program is None:
        return failure("git", "It is not on PATH.", remedy="Debian: apt-get install git")
    return git_version(_run([program, "--version"]).stdout.strip())


def git_version(words: str) -> Finding:
    """Whether the git that says this of itself is new enough."""
    found = re.search(r"(\d+)\.(\d+)", words)
    if found is None or tuple(map(int, found.groups())) < _GIT:
        remedy = f"Install git {'.'.join(map(str, _GIT))} or newer."
        return failure("git", f"It is {words!r}.", remedy=remedy)
    return ok("git", f"It is {words}.")


def torchrun() -> Finding:
    """torch is there and its launcher starts, in a process of its own: importing it is dear."""
    remedy = "Install torch into this Python (requirements-torch.txt), or start the cluster's own."
    if importlib.util.find_spec("torch") is None:
        return failure("torchrun", f"{sys.executable} has no torch.", remedy=remedy)
    try:
        result = _run([sys.executable, "-m", "torch.distributed.run", "--help"])
    except subprocess.TimeoutExpired:
        return failure("torchrun", f"It says nothing within {_TIMEOUT_S:.0f} s.", remedy=remedy)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["it says nothing."])[-1]
        return failure("torchrun", f"It does not start: {last}", remedy=remedy)
    return ok("torchrun", f"It starts, with torch {importlib.metadata.version('torch')}.")


def guard() -> Finding:
    """Linux offers what ends a trial whole: pidfds, subreapers, other processes in /proc."""
    needs = {
        "pidfd_open(2)": _has_pidfd(),
        "prctl(2) for subreapers": _has_subreaper(),
        "other users' processes in /proc": Path("/proc/1/stat").exists(),
    }
    lacking = ", ".join(name for name, is_there in needs.items() if not is_there)
    if lacking:
        remedy = "Measure on Linux 5.4 or newer, with /proc mounted without hidepid."
        return failure("guard", f"This machine does not offer {lacking}.", remedy=remedy)
    return ok("guard", f"This machine offers {', '.join(needs)}.")


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _has_subreaper() -> bool:
    try:
        prctl = ctypes.CDLL(None).prctl
    except AttributeError:
        return False
    return bool(prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) == 0)


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
