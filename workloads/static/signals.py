"""The cost signals of one step of a training workload, the same at every repetition."""

from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from workloads.recipe import Training
from workloads.static.counts import Counts
from workloads.static.graph import num_graph_breaks
from workloads.static.memory import Memory
from workloads.static.world import fake_world


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Counts of one rank and step, by the names of their metrics, and operators by name."""

    metrics: dict[str, int]
    operators: dict[str, int]
    torch: str = torch.__version__


def signals(workload: Any, config: Any, world_size: int, rank: int = 0) -> Signals:
    """What a step costs the rank. Raises ValueError for what does not divide or depends on data."""
    counts, memory = costs(workload, config, world_size, rank)
    with fake_world(world_size, rank) as dist:
        num_breaks = num_graph_breaks(config, dist)
    metrics = _metrics(counts, memory) | {"static_num_graph_breaks": num_breaks}
    return Signals(metrics=metrics, operators=dict(counts.operators))


def costs(workload: Any, config: Any, world_size: int, rank: int = 0) -> tuple[Counts, Memory]:
    """What ran in a step of the rank, and the memory that took; see signals."""
    if config.precision == "float16":
        raise ValueError("float16 scales the loss by what gradients come out: count bfloat16")
    if config.compile:
        raise ValueError("what torch.compile makes of a block is not counted: leave compile out")
    try:
        with fake_world(world_size, rank) as dist:
            training = Training(config, dist, workload.parallelize)
            window_BT = next(training.batches())
            training.step(window_BT)  # makes the optimizer's state
            with Memory(training.model, training.optimizer.state) as memory:
                training.step(window_BT)
            with Counts() as counts:
                training.step(window_BT)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        detail = "pipelines, experts and models that look at values cannot be counted"
        raise ValueError(f"a step depends on the data of a tensor ({error}): {detail}") from error
    return counts, memory


def _metrics(counts: Counts, memory: Memory) -> dict[str, int]:
    found = {"static_flops": counts.flops}
    for kind in sorted(counts.num_collectives):
        found[f"static_num_collectives@{kind}"] = counts.num_collectives[kind]
        found[f"static_collective_bytes@{kind}"] = counts.collective_bytes[kind]
    found["static_peak_bytes"] = memory.peak.total()
    for kind, num_bytes in sorted(memory.peak.items()):
        found[f"static_held_bytes@{kind}"] = num_bytes
    found["static_num_operators"] = counts.operators.total()
    return found
