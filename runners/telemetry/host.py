"""The node's CPUs and memory, and the CPU time of a trial's processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from runners.telemetry.processes import Process, table, tree_s
from runners.telemetry.readings import Readings


@dataclass(frozen=True, kw_only=True)
class CpuTimes:
    """CPU time in seconds: of all CPUs since the node's start, of a trial since its launch."""

    busy_s: float
    total_s: float
    own_s: float | None


def shares(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """How the CPUs were used between two readings, as shares of all of the node's; may be empty.

    What is foreign is what is busy and not the trial's: neighbours, what the hypervisor took, the
    worker itself and, in lock-step, the other side. The kernel counts in ticks, each counter by
    itself, so that a share of little may be below zero.
    """
    total_s = after.total_s - before.total_s
    if total_s <= 0:
        return {}
    found = {"cpu_total_s": total_s, "cpu_busy_ratio": (after.busy_s - before.busy_s) / total_s}
    if before.own_s is not None and after.own_s is not None:
        found["own_cpu_ratio"] = (after.own_s - before.own_s) / total_s
        found["foreign_cpu_ratio"] = found["cpu_busy_ratio"] - found["own_cpu_ratio"]
    return found


class Host:
    """Reads the node, and the tree of processes below `root`, which is not of the tree itself.

    `ps` is psutil, `table` gives the node's processes.
    """

    def __init__(
        self, root: int, ps: Any = psutil, table: Callable[[], Mapping[int, Process]] = table
    ) -> None:
        self._root, self._ps, self._table = root, ps, table
        self._readings = Readings(psutil.Error, OSError)
        self._before: CpuTimes | None = None

    def read(self, own_s: float | None = None) -> dict[str, Any]:
        """What can be had now; `own_s` is the trial's CPU time where that is known better."""
        found = self._readings.take(
            cpu_time_s=lambda: tree_s(self._table(), self._root) if own_s is None else own_s,
            cpu=self._ps.cpu_times,
            available_memory_bytes=lambda: self._ps.virtual_memory().available,
            load=lambda: self._ps.getloadavg()[0],
        )
        if cpu := found.pop("cpu", None):
            now = cpu_times(cpu, found.get("cpu_time_s"))
            found |= shares(self._before, now) if self._before else {}
            self._before = now
        return found


def cpu_times(times: Any, own_s: float | None) -> CpuTimes:
    """From psutil's fields of all CPUs; a virtual machine's time is in `user` already (proc(5))."""
    busy_s = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return CpuTimes(busy_s=busy_s, total_s=busy_s + times.idle + times.iowait, own_s=own_s)
