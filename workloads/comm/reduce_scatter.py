"""Reduce-scatter: every rank gets its part of the sum of what all have."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts

# torch 2.13 has renamed it.
_reduce_scatter = getattr(c10d, "reduce_scatter_single", None) or c10d.reduce_scatter_tensor


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "reduce_scatter", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """Out of place."""
    group, numel = numbers.group, numbers.numel_per_rank
    x = numbers.mine()
    part = numbers.blank(numel)
    return Exchange(
        call=lambda: _reduce_scatter(part, x, group=group.handle),
        given=x,
        result=part,
        expected=numbers.total(group.rank * numel, (group.rank + 1) * numel),
    )
