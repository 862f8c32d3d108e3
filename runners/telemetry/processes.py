"""The processes of this node, and what a tree of them has spent.

Read in one pass over /proc (proc_pid_stat(5)), since it costs the node that measures: psutil reads
most of it twice to follow a tree.
"""

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process: its parent, and CPU time in seconds, its own and of the children it waited for."""

    parent: int
    spent_s: float
    ended_s: float


def table() -> dict[int, Process]:
    """All processes by id; those that end meanwhile are left out.

    Without Path and decoding, which cost more than the reading.
    """
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb", 0) as file:  # noqa: PTH123
                found[int(name)] = parse(file.read())
    return found


def parse(stat: bytes) -> Process:
    """The process whose line this is; its name, in parentheses, may hold anything."""
    fields = stat.rpartition(b")")[2].split()
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return Process(
        parent=int(fields[1]),
        spent_s=(user + system) * _TICK_S,
        ended_s=(ended_user + ended_system) * _TICK_S,
    )


def tree_s(processes: Mapping[int, Process], root: int) -> float | None:
    """CPU time of all below the root, those included that ended; None where there is no root.

    It is lost of whom nobody waits for, since its parent ignores SIGCHLD. Who ends while the table
    is read may be in it twice or not at all; the next table has it once.
    """
    if root not in processes:
        return None
    children = defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    spent_s, todo = processes[root].ended_s, list(children[root])
    while todo:
        pid = todo.pop()
        spent_s += processes[pid].spent_s + processes[pid].ended_s
        todo += children[pid]
    return spent_s
