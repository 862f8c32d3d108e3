"""Gather: the root gets the parts of all."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "gather", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """Parts arrive in one tensor, side by side."""
    group, numel = numbers.group, numbers.numel_per_rank
    x = numbers.of(group.rank, stop=numel)
    if not group.is_root:
        return Exchange(call=lambda: c10d.gather(x, None, group.root, group=group.handle), given=x)
    gathered = numbers.blank(numbers.numel)
    parts = list(gathered.split(numel))
    return Exchange(
        call=lambda: c10d.gather(x, parts, group.root, group=group.handle),
        given=x,
        result=gathered,
        expected=torch.cat([numbers.of(rank, stop=numel) for rank in range(group.num_ranks)]),
    )
