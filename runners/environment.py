"""Facts of this machine: hard ones decide comparability, soft ones define cohorts."""

import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the cluster provides here."""

    hard: dict[str, Any]
    soft: dict[str, Any]


def facts() -> Facts:
    """Facts of the host and its devices as they are now; what cannot be read is absent."""
    hard = {
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": _round_bytes(psutil.virtual_memory().total),
    }
    soft = {
        "node": socket.gethostname(),
        "kernel": platform.release(),
        "cpu_governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_hugepages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
    }
    devices = _devices()
    return Facts(
        hard=_known(hard | devices.hard),
        soft=_known(soft | devices.soft),
    )


def num_devices() -> int:
    """How many GPUs the driver shows; 0 where there is no driver."""
    return int(_devices().hard.get("num_gpus", 0))


def _devices() -> Facts:
    """GPU facts from NVML; empty where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return Facts(hard={}, soft={})
    try:
        count = pynvml.nvmlDeviceGetCount()
        names = {
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index))
            for index in range(count)
        }
        return Facts(
            hard={"num_gpus": count, "gpu_model": ", ".join(sorted(names))},
            soft={"gpu_driver": pynvml.nvmlSystemGetDriverVersion()},
        )
    finally:
        pynvml.nvmlShutdown()


def _cpu_model() -> str | None:
    for line in (_text("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _round_bytes(num_bytes: int) -> int:
    """To the GiB: kernels reserve slightly different amounts of the same memory."""
    return round(num_bytes / 2**30) * 2**30


def _chosen(path: str) -> str | None:
    """The bracketed word of a kernel switch such as `always [madvise] never`."""
    text = _text(path)
    return text.partition("[")[2].partition("]")[0] if text else None


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
