"""Data-parallel training: DistributedDataParallel, a whole model on every rank."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.models.decoder import Decoder
from workloads.recipe import Recipe, batches, flops_per_token, make_decoder, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    decoder = make_decoder(config, dist)
    flops = flops_per_token(config, decoder)
    model = parallelize(decoder, config, dist)
    both_ways = make_pass(model, autocast=config.is_half)
    return train(model.parameters(), both_ways, batches(config, dist, dist.rank), config, flops)


def parallelize(decoder: Decoder, _config: Config, dist: Dist) -> nn.Module:
    """The decoder with its gradients averaged over all ranks, bucket by bucket."""
    return DistributedDataParallel(decoder, device_ids=dist.device_ids)
