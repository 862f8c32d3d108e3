"""From a trial's telemetry to its metrics."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from runners.telemetry.gpu import BENIGN
from service.db.base import Samples

Sample = Mapping[str, Any]


def metrics(samples: Sequence[Sample]) -> dict[str, Samples]:
    """Metrics of a trial, one value each, from its samples in their order; those that could be had.

    All GPUs count alike, and so do all samples, from the launch to the end.
    """
    gpus = [gpu for sample in samples for gpu in sample.get("gpus", ())]
    found = {
        "cpu_time_s": _last([s["cpu_time_s"] for s in samples if "cpu_time_s" in s]),
        "foreign_cpu_ratio": _foreign_ratio(samples),
        "gpu_busy_ratio": _over(gpus, "busy_ratio", np.mean),
        "gpu_sm_clock_hz": _over(gpus, "sm_clock_hz", np.median),
        "gpu_power_w": _over(gpus, "power_w", np.mean),
        "gpu_temperature_c": _over(gpus, "temperature_c", np.max),
        "gpu_throttled_ratio": _throttled_ratio(gpus),
        "gpu_ecc_errors": _num_new_errors(gpus),
    }
    return {name: np.array([value]) for name, value in found.items() if value is not None}


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


def _foreign_ratio(samples: Sequence[Sample]) -> float | None:
    """The mean over the CPU time that there was; the ticks of a quiet node may sum to below 0."""
    known = [sample for sample in samples if "foreign_cpu_ratio" in sample]
    total_s = sum(sample["cpu_total_s"] for sample in known)
    foreign_s = sum(sample["foreign_cpu_ratio"] * sample["cpu_total_s"] for sample in known)
    return max(0.0, foreign_s / total_s) if known else None


def _over(
    gpus: Sequence[Sample], name: str, summary: Callable[[Sequence[float]], float]
) -> float | None:
    """A summary of one reading."""
    values = [gpu[name] for gpu in gpus if name in gpu]
    return summary(values) if values else None


def _throttled_ratio(gpus: Sequence[Sample]) -> float | None:
    """The share of readings in which something held the clocks down."""
    told = [set(gpu["throttle_reasons"]) for gpu in gpus if "throttle_reasons" in gpu]
    return sum(bool(reasons - BENIGN) for reasons in told) / len(told) if told else None


def _num_new_errors(gpus: Sequence[Sample]) -> int | None:
    """Uncorrected ECC errors that were not there at first; a reset GPU counts from 0 again."""
    counts: dict[str, list[int]] = {}
    for gpu in gpus:
        if "num_ecc_uncorrected" in gpu:
            counts.setdefault(gpu["uuid"], []).append(gpu["num_ecc_uncorrected"])
    if not counts:
        return None
    return sum(max(0, after - before) for own in counts.values() for before, after in pairwise(own))
