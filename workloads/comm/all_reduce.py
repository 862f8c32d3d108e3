"""All-reduce: every rank gets the sum of what all have."""

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
    return measure(config, dist, "all_reduce", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """In place."""
    x = numbers.mine()
    return Exchange(
        call=lambda: c10d.all_reduce(x, group=numbers.group.handle),
        given=x,
        result=x,
        expected=numbers.total(),
    )
