"""Reduce: the root gets the sum of what all have."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "reduce", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """In place; what it leaves on ranks other than the root means nothing."""
    group, x = numbers.group, numbers.mine()
    end = numbers.numel if group.is_root else 0
    return Exchange(
        call=lambda: c10d.reduce(x, group.root, group=group.handle),
        given=x,
        result=x[:end],
        expected=numbers.total(stop=end),
    )
