"""Fully sharded training, FSDP2: parameters, gradients and optimizer state cut over the ranks.

With replicas it is hybrid sharding (HSDP): sharded within each group of ranks, gradients averaged
between the groups, as where a group is a node.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.models.decoder import Decoder
from workloads.recipe import Recipe, batches, flops_per_token, make_decoder, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    reshard: Annotated[bool, "free a block's parameters between forward and backward"] = True
    replicas: Annotated[int, "groups of ranks that each hold the whole model"] = 1


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where the ranks do not divide into groups."""
    decoder = make_decoder(config, dist)
    flops = flops_per_token(config, decoder)
    model = parallelize(decoder, config, dist)
    both_ways = make_pass(model, autocast=False)
    return train(model.parameters(), both_ways, batches(config, dist, dist.rank), config, flops)


def parallelize(decoder: Decoder, config: Config, dist: Dist) -> nn.Module:
    """The decoder sharded by blocks, what lies around them with the root; in half precision
    parameters are gathered as bfloat16 and gradients reduced as float32.
    """
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {
        "mesh": mesh(config, dist),
        "reshard_after_forward": config.reshard,
        "mp_policy": half if config.is_half else MixedPrecisionPolicy(),
    }
    for block in decoder.blocks:
        fully_shard(block, **options)
    return fully_shard(decoder, **options)


def mesh(config: Config, dist: Dist) -> DeviceMesh:
    """All ranks in one row, or groups by ranks. Raises ValueError."""
    group_size, rest = divmod(dist.world_size, max(config.replicas, 1))
    if config.replicas < 1 or rest:
        raise ValueError(f"{dist.world_size} ranks do not make {config.replicas} equal groups")
    if config.replicas == 1:
        return init_device_mesh(dist.device.type, (dist.world_size,), mesh_dim_names=("shard",))
    shape = (config.replicas, group_size)
    return init_device_mesh(dist.device.type, shape, mesh_dim_names=("replicate", "shard"))
