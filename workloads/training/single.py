"""Training in one process: what one device can do, and the reference of all other modes."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.recipe import Parallel, Recipe, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where there are more ranks than one."""
    if dist.world_size != 1:
        raise ValueError(f"training.single has one rank, not {dist.world_size}: see training.ddp")
    return train(config, dist, parallelize)


def parallelize(decoder: nn.Module, config: Config, dist: Dist) -> Parallel:
    """The whole decoder."""
    both_ways = make_pass(decoder, dist.device, config.half)
    return Parallel(model=decoder, both_ways=both_ways, replica=0)
