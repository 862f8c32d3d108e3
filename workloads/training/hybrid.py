"""Training cut in four ways at once: by replicas, shards, tensors and stages of a pipeline.

All ranks form one mesh. Its axes, from the outermost, where ranks talk least, to the innermost,
which should lie within a node (arXiv:2407.21783, section 3.3.2):

    stage x replicate x shard x tensor
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.recipe import Parallel, make_pass, train
from workloads.training import fsdp, pipeline, tensor_parallel


@dataclass(frozen=True, kw_only=True)
class Config(pipeline.Config):
    """The command line."""

    stages: Annotated[int, "ranks that a batch is passed on through"] = 2
    replicas: Annotated[int, "groups of ranks whose gradients are averaged"] = 1
    shards: Annotated[int, "ranks that parameters are sharded over (FSDP)"] = 2
    tensor: Annotated[int, "ranks that matrices are cut over"] = 2
    sequence_parallel: Annotated[bool, "cut norms and residuals along the sequence"] = True

    @property
    def axes(self) -> dict[str, int]:
        """The mesh, the innermost axis last."""
        return {
            "stage": self.stages,
            "replicate": self.replicas,
            "shard": self.shards,
            "tensor": self.tensor,
        }


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where something does not divide."""
    return train(config, dist, parallelize)


def parallelize(decoder: Any, config: Config, dist: Dist) -> Parallel:
    """This rank's stages, their matrices cut and the rest sharded. Raises ValueError."""
    sizes = config.axes.values()
    if prod(sizes) != dist.world_size or min(sizes) < 1:
        product = " x ".join(map(str, sizes))
        names = "stages x replicas x shards x tensor"
        raise ValueError(f"{names} are {product}, which is not {dist.world_size} ranks")
    tensor_parallel.refuse(config, config.tensor)
    if config.stages > 1:
        pipeline.refuse(config, config.stages)
    mesh = dist.mesh(**config.axes)
    replica = mesh["replicate"].get_local_rank() * config.shards + mesh["shard"].get_local_rank()
    if config.stages == 1:
        model = _cut(decoder, mesh, config)
        both_ways = make_pass(model, dist.device)
        return Parallel(
            model=model, both_ways=both_ways, replica=replica, ranks_per_replica=config.tensor
        )
    stage = mesh["stage"]
    pipe = pipeline.Pipe(rank=stage.get_local_rank(), size=config.stages, group=stage.get_group())
    stages = nn.ModuleList(
        _cut(one, mesh, config) for one in pipeline.stages_of(decoder, config, pipe)
    )
    return Parallel(
        model=stages,
        both_ways=pipeline.passes(stages, config, dist, pipe, _passed(config)),
        replica=replica,
        ranks_per_replica=config.stages * config.tensor,
        stages=pipe.group,
    )


def _passed(config: Config) -> Tensor:
    """What this rank passes on: its part of the sequence, in the precision of its parameters."""
    parts = config.tensor if config.sequence_parallel else 1
    return pipeline.passed(config, config.half or torch.float32, parts)


def _cut(stage: nn.Module, mesh: Any, config: Config) -> nn.Module:
    if config.tensor > 1:
        tensor_parallel.cut(
            stage,
            mesh["tensor"],
            sequence_parallel=config.sequence_parallel,
            loss_parallel=False,
        )
    axes = ("replicate", "shard") if config.replicas > 1 else ("shard",)
    return fsdp.sharded(stage, mesh[axes], config)
