"""All-gather: every rank gets the parts of all."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as c10d

from workloads.collectives import Collective, Exchange, Numbers, measure
from workloads.dist import Dist
from workloads.harness import Facts

# torch 2.13 has renamed it.
_all_gather = getattr(c10d, "all_gather_single", None) or c10d.all_gather_into_tensor


@dataclass(frozen=True, kw_only=True)
class Config(Collective):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    return measure(config, dist, "all_gather", prepare)


def prepare(numbers: Numbers) -> Exchange:
    """Out of place: a rank's own part is copied, too."""
    group, numel = numbers.group, numbers.numel_per_rank
    x = numbers.of(group.rank, stop=numel)
    gathered = numbers.blank(numbers.numel)
    return Exchange(
        call=lambda: _all_gather(gathered, x, group=group.handle),
        given=x,
        result=gathered,
        expected=torch.cat([numbers.of(rank, stop=numel) for rank in range(group.num_ranks)]),
    )
