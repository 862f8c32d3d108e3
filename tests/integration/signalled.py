"""Signals of small models, and by how much they differ."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from workloads.static.signals import signals
from workloads.training import pipeline

SIZES = {"model": "debug", "seq_len": 32, "batch_size": 2}
SCHEDULES = get_args(get_args(get_type_hints(pipeline.Config, include_extras=True)["schedule"])[0])


def counted(workload: Any, world_size: int = 1, **options: Any) -> dict[str, float]:
    return signals(workload, workload.Config(**{**SIZES, **options}), world_size).metrics


def changed(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each count differs; memory is left out."""
    return {
        name: after.get(name, 0) - before.get(name, 0)
        for name in sorted(before.keys() | after.keys())
        if after.get(name, 0) != before.get(name, 0)
        and not name.endswith("_bytes")
        and "held" not in name
    }
