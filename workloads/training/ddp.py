"""Data-parallel training: DistributedDataParallel, a whole model on every rank."""

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
    """Set up and return the steps."""
    return train(config, dist, parallelize)


def parallelize(decoder: nn.Module, config: Config, dist: Dist) -> Parallel:
    """The decoder with its gradients averaged over all ranks."""
    model = dist.replicated(decoder)
    both_ways = make_pass(model, dist.device, config.half)
    return Parallel(model=model, both_ways=both_ways, replica=dist.rank)
