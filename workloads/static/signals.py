"""The cost signals of one step of a training workload, the same at every repetition."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from multiprocessing import get_context
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)

from workloads.recipe import Training
from workloads.static.bubble import order_of, timeline
from workloads.static.counts import Counts
from workloads.static.graph import num_graph_breaks
from workloads.static.memory import Memory
from workloads.static.stages import ranks_of
from workloads.static.world import fake_world
from workloads.training import pipeline


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Counts of a step, by the names of their metrics, and operators by name."""

    metrics: dict[str, float]
    operators: dict[str, int]
    torch: str = torch.__version__


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a step costs one rank: what it does, and what it holds at its peak, by category."""

    flops: int
    operators: Counter[str]
    num_collectives: Counter[str]
    collective_bytes: Counter[str]
    held_bytes: Counter[str]

    @property
    def peak_bytes(self) -> int:
        return self.held_bytes.total()


def signals(workload: Any, config: Any, world_size: int, rank: int | None = None) -> Signals:
    """What a step costs the rank, or one rank of each place in a pipeline.

    Raises ValueError for what does not divide or depends on data.
    """
    ranks = ranks_of(config, world_size) if rank is None else range(rank, rank + 1)
    found = costs_of(workload, config, world_size, ranks)
    with fake_world(world_size, ranks[0]) as dist:
        num_breaks = num_graph_breaks(config, dist)
    metrics: dict[str, float] = {
        **metrics_of(found),
        "static_num_graph_breaks": num_breaks,
        **bubble_of(config, len(ranks_of(config, world_size))),
    }
    operators = sum((one.operators for one in found.values()), Counter[str]())
    return Signals(metrics=metrics, operators=dict(operators))


def costs_of(workload: Any, config: Any, world_size: int, ranks: Sequence[int]) -> dict[int, Costs]:
    """Costs by rank. One is counted here, several side by side."""
    if len(ranks) == 1:
        return {ranks[0]: costs(workload, config, world_size, ranks[0])}
    with processes() as started:
        same = map(repeat, (workload.__name__, config, world_size))
        return dict(zip(ranks, started.map(costs_in_process, *same, ranks), strict=True))


def processes() -> ProcessPoolExecutor:
    """As many as there are cores, forked from one that has loaded torch. Each counts once: torch
    remembers the groups of a world that is gone.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(mp_context=context, max_tasks_per_child=1)


def costs_in_process(workload: str, config: Any, world_size: int, rank: int) -> Costs:
    """Costs by the name of the workload's module, for a process that has not loaded it."""
    return costs(import_module(workload), config, world_size, rank)


def costs(workload: Any, config: Any, world_size: int, rank: int = 0) -> Costs:
    """What a step costs the rank; see signals."""
    if config.precision == "float16":
        raise ValueError("float16 scales the loss by what gradients come out: count bfloat16")
    if config.compile:
        raise ValueError("what torch.compile makes of a block is not counted: leave compile out")
    try:
        with fake_world(world_size, rank) as dist:
            training = Training(config, dist, workload.parallelize)
            window_BT = next(training.batches())
            with Memory(training.model) as memory:
                training.step(window_BT)  # makes the optimizer's state, and buffers to receive in
                memory.start_over(training.optimizer.state)
                training.step(window_BT)
            with Counts() as counts:
                training.step(window_BT)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        detail = "experts and models that look at values cannot be counted"
        raise ValueError(f"a step depends on the data of a tensor ({error}): {detail}") from error
    return Costs(
        flops=counts.flops,
        operators=counts.operators,
        num_collectives=counts.num_collectives,
        collective_bytes=counts.collective_bytes,
        held_bytes=memory.peak,
    )


def bubble_of(config: Any, num_places: int) -> dict[str, float]:
    """The metric of a pipeline; one place waits for nobody."""
    if not isinstance(config, pipeline.Config):
        return {}
    if num_places == 1:
        return {"static_bubble_ratio": 0.0}
    order = order_of(config.schedule, num_places, config.microbatches)
    return {"static_bubble_ratio": timeline(order).bubble_ratio}


def metrics_of(by_rank: Mapping[int, Costs]) -> dict[str, int]:
    """What ranks do is added up, and what they hold is that of the rank which holds most; FLOPs and
    memory, which should be alike, are told of each rank too.
    """
    every = list(by_rank.values())
    fullest = max(every, key=lambda one: one.peak_bytes)
    found = {"static_flops": sum(one.flops for one in every)}
    for kind in sorted({kind for one in every for kind in one.num_collectives}):
        found[f"static_num_collectives@{kind}"] = sum(one.num_collectives[kind] for one in every)
        found[f"static_collective_bytes@{kind}"] = sum(one.collective_bytes[kind] for one in every)
    found["static_peak_bytes"] = fullest.peak_bytes
    for kind, num_bytes in sorted(fullest.held_bytes.items()):
        found[f"static_held_bytes@{kind}"] = num_bytes
    found["static_num_operators"] = sum(one.operators.total() for one in every)
    if len(every) > 1:
        for rank, one in by_rank.items():
            found[f"static_flops@rank_{rank}"] = one.flops
            found[f"static_peak_bytes@rank_{rank}"] = one.peak_bytes
    return found
