"""Fully sharded training, FSDP2: parameters, gradients and optimizer state cut over the ranks.

With replicas it is hybrid sharding (HSDP): sharded within each group of ranks, gradients averaged
between the groups, as where a group is a node.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.recipe import Parallel, Recipe, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    reshard: Annotated[bool, "free a block's parameters between forward and backward"] = True
    replicas: Annotated[int, "groups of ranks that each hold the whole model"] = 1


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where the ranks do not divide into groups."""
    return train(config, dist, parallelize)


def parallelize(decoder: nn.Module, config: Config, dist: Dist) -> Parallel:
    """The decoder sharded by blocks, what lies around them with the root."""
    model = sharded(decoder, mesh(config, dist), config, reshard=config.reshard)
    return Parallel(model=model, both_ways=make_pass(model, dist.device), replica=dist.rank)


def sharded(
    model: Any, mesh: DeviceMesh, config: Recipe, *, reshard: bool = True, **options: Any
) -> nn.Module:
    """The model and each of its blocks cut over the mesh; in half precision parameters are
    gathered so and gradients reduced as float32.

    What lies around the blocks is needed first and last, and is not freed in between.
    """
    policy = MixedPrecisionPolicy()
    if config.half is not None:
        policy = MixedPrecisionPolicy(param_dtype=config.half, reduce_dtype=torch.float32)
    for block in getattr(model, "blocks", nn.ModuleList()).children():
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, **options)
    return fully_shard(model, mesh=mesh, mp_policy=policy, **options)


def mesh(config: Config, dist: Dist) -> DeviceMesh:
    """All ranks in one row, or groups by ranks. Raises ValueError."""
    group_size, rest = divmod(dist.world_size, max(config.replicas, 1))
    if config.replicas < 1 or rest:
        raise ValueError(f"{dist.world_size} ranks do not make {config.replicas} equal groups")
    if config.replicas == 1:
        return dist.mesh(shard=group_size)
    return dist.mesh(replicate=config.replicas, shard=group_size)
