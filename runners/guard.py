"""Runs one trial and leaves nothing of it behind. Standard library only: it starts in a moment.

    python -m runners.guard  < one JSON line (Order), then the pipe stays open
                             > one JSON line (Outcome)

The pipe is the lifeline: when it closes, because the worker let go or died, the tree is killed.
torchrun puts every rank in a session of its own, so killing the agent's group would leave them
alive. The guard is therefore a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER: orphans become its
children) and also looks for the trial's tag in the environment of every process.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from runners.account import Account

_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_RANKS = "rank-*.jsonl"  # a trial may leave anything beside them
_STEP = re.compile(rb'"kind"\s*:\s*"step"')
_CHECK_S = 1.0
_OOM_SCORE = "500"  # of 1000: when memory runs out, the trial goes before the worker
_SWEEP_S = 5.0  # a process that was sent SIGKILL takes a moment to be gone


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to run, and when to end it.

    `watch` is a folder of records, which grow while there is life. Silence is allowed for `start_s`
    before the first step, as compiling takes its time, and for `stall_s` then (0: for ever).
    `account` has the fields of Account: as whom it runs.
    """

    argv: list[str]
    environment: dict[str, str]
    working_dir: str
    log: str
    tag: str  # NAME=VALUE, found in the environment of everything the trial starts
    deadline_s: float
    kill_grace_s: float
    watch: str = ""
    start_s: float = 0.0
    stall_s: float = 0.0
    account: dict[str, Any] = field(default_factory=dict)


class Ended(StrEnum):
    """How a trial ended."""

    EXITED = "exited"
    DEADLINE = "deadline"
    STALLED = "stalled"
    RELEASED = "released"  # the worker let go of it
    NOT_STARTED = "not_started"
    UNGUARDED = "unguarded"  # its guard was killed


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended, and what was left of it."""

    ended: Ended
    exit_code: int | None = None
    wall_s: float = 0.0
    num_survivors: int = 0  # processes that had to be killed after the trial's own end
    cpu_time_s: float | None = None  # of all its processes; None where nobody was left to tell
    detail: str = ""


def main() -> None:
    """Read the order, run it, print the outcome."""
    order = Order(**json.loads(sys.stdin.readline()))
    print(json.dumps(asdict(run(order, lifeline=sys.stdin.fileno()))), flush=True)


def run(order: Order, *, lifeline: int) -> Outcome:
    """Run a trial to its end, or end it; returns when no process of it is alive."""
    started, spent_s = time.monotonic(), _cpu_time_s()
    account = Account(**order.account)
    _confine(account)
    try:
        with Path(order.log).open("ab") as log:
            child = subprocess.Popen(
                order.argv,
                env=order.environment,
                cwd=order.working_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **account.start_arguments(),
            )
    except (OSError, ValueError, KeyError) as error:  # a NUL among the arguments; no such user
        return Outcome(ended=Ended.NOT_STARTED, detail=str(error))
    with contextlib.suppress(OSError):
        Path(f"/proc/{child.pid}/oom_score_adj").write_text(_OOM_SCORE)
    ended = _watch(child, order, lifeline, started)
    if child.poll() is None:
        _terminate(child, order.kill_grace_s)
    num_survivors = sweep(order.tag, order.kill_grace_s, ancestor=os.getpid())
    return Outcome(
        ended=ended,
        exit_code=child.returncode,
        wall_s=time.monotonic() - started,
        num_survivors=num_survivors,
        cpu_time_s=_cpu_time_s() - spent_s,
    )


def _cpu_time_s() -> float:
    """User and system time of the processes below this one that have ended (getrusage(2)).

    A subreaper waits for orphans too. What escapes is a child whose parent ignores SIGCHLD: the
    kernel adds its time to nobody's.
    """
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _confine(account: Account) -> None:
    """Set on this process what all that it starts inherits.

    Nothing gains rights by what it runs (no_new_privs), nor leaves its memory on the disk.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, limit in (
        (resource.RLIMIT_NPROC, account.max_processes),
        (resource.RLIMIT_FSIZE, account.max_file_bytes),
    ):
        hard = resource.getrlimit(kind)[1]
        if limit and (hard == resource.RLIM_INFINITY or limit < hard):
            resource.setrlimit(kind, (limit, limit))


def _watch(child: subprocess.Popen[bytes], order: Order, lifeline: int, started: float) -> Ended:
    """Wait for the child's exit, the lifeline's end, the deadline or a stall."""
    exit_event = os.pidfd_open(child.pid)
    try:
        while True:
            ready, _, _ = select.select([exit_event, lifeline], [], [], _CHECK_S)
            if exit_event in ready:
                return Ended.EXITED
            if lifeline in ready and not os.read(lifeline, 4096):
                return Ended.RELEASED
            if time.monotonic() - started > order.deadline_s:
                return Ended.DEADLINE
            if order.stall_s and _has_stalled(order):
                return Ended.STALLED
    finally:
        os.close(exit_event)


def _has_stalled(order: Order) -> bool:
    folder = Path(order.watch)
    silent_s = _silent_s(folder)
    return silent_s > order.stall_s and (silent_s > order.start_s or _has_begun(folder))


def _has_begun(folder: Path) -> bool:
    """Whether a rank has recorded a step; the first is never far from the top of its file."""
    for path in folder.glob(_RANKS):
        with contextlib.suppress(OSError):
            if _STEP.search(_top(path)):
                return True
    return False


def _top(path: Path) -> bytes:
    """The top of a file. Raises OSError for what is none; a pipe, which would block, is empty."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)


def _silent_s(folder: Path) -> float:
    """Seconds since a rank's file last grew; 0 while there is none."""
    times = []
    for path in folder.glob(_RANKS):
        with contextlib.suppress(OSError):
            times.append(path.lstat().st_mtime)
    return time.time() - max(times) if times else 0.0


def _terminate(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM, which lets torchrun end its ranks, then SIGKILL."""
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def sweep(tag: str, patience_s: float, *, ancestor: int | None = None) -> int:
    """Kill what is left of a trial; returns how many processes that were.

    `ancestor` is the subreaper, when it is the one to call. Every orphan becomes its child, so it
    has ended the trial when it has no child: /proc, read entry by entry, may miss a forking one.
    """
    killed: set[int] = set()
    limit = time.monotonic() + max(patience_s, _SWEEP_S)
    while time.monotonic() < limit:
        left = set(leftovers(tag.encode(), ancestor))
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        has_children = ancestor is not None and _reap()
        if not left and not has_children:
            break
        time.sleep(0.02)
    return len(killed)


def leftovers(tag: bytes, ancestor: int | None = None) -> Iterator[int]:
    """Living processes that carry the tag in their environment or descend from `ancestor`."""
    parents, living = {}, []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name)
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            parents[pid] = int(parent)
            if state not in "ZX" and pid != os.getpid():
                living.append(pid)
    for pid in living:
        if _descends(pid, parents, ancestor) or tag in _environment(pid):
            yield pid


def _descends(pid: int, parents: dict[int, int], ancestor: int | None) -> bool:
    """Whether `ancestor` is one of `pid`."""
    while pid := parents.get(pid, 0):
        if pid == ancestor:
            return True
    return False


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _reap() -> bool:
    """Collect orphans that became our children; whether a living child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
