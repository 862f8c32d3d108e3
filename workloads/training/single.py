"""Training in one process: what one device can do, and the reference of all other modes."""

from collections.abc import Iterator
from dataclasses import dataclass

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.recipe import Recipe, batches, flops_per_token, make_decoder, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where there are more ranks than one."""
    if dist.world_size != 1:
        raise ValueError(f"training.single has one rank, not {dist.world_size}: see training.ddp")
    decoder = make_decoder(config, dist)
    flops = flops_per_token(config, decoder)
    both_ways = make_pass(decoder, autocast=config.is_half)
    return train(decoder.parameters(), both_ways, batches(config, dist, dist.rank), config, flops)
