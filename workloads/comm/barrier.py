"""Barrier: no rank goes on before all have come. Hosts wait, on a GPU too."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch.distributed as c10d
from torch.distributed.distributed_c10d import _get_default_store

from workloads import groups
from workloads.collectives import meeting
from workloads.dist import Dist, Stopwatch
from workloads.groups import Group
from workloads.harness import Facts
from workloads.sweep import Repeats, Steps, at_least


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line."""

    group: groups.Kind = "world"
    repeats: Repeats = 5
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, repeats=self.repeats)


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up, see that it holds ranks back, and return the steps."""
    group = groups.connect(config.group, dist)
    barrier = partial(c10d.barrier, group.handle, device_ids=dist.device_ids)
    check(barrier, group, f"rank {dist.rank}")
    return steps(barrier, config.repeats, Stopwatch(dist.device), meeting(dist))


def check(barrier: Callable[[], object], group: Group, who: str) -> None:
    """Raises RuntimeError where it ends before all ranks of the group have come.

    They are counted in the job's store, which no collective touches; a rank's place among all that
    ever came tells how many there must be by the end of this time.
    """
    store, key = _get_default_store(), f"barrier of {group.root}"
    place = store.add(key, 1)
    barrier()
    expected = math.ceil(place / group.num_ranks) * group.num_ranks
    if (num_come := store.add(key, 0)) < expected:
        raise RuntimeError(f"{who}: barrier is wrong: it ended at {num_come} of {expected} ranks")


def steps(
    barrier: Callable[[], object], repeats: int, watch: Stopwatch, meet: Callable[[], object]
) -> Iterator[Facts]:
    """Steps: each times the barrier, which all reach together."""
    while True:
        meet()
        yield {"barrier_time_s": watch.mean(barrier, repeats)}
