"""Tensor-parallel training: every matrix cut over the ranks, which work on the same batch.

Columns of the first matrix of a layer, rows of the second (arXiv:1909.08053, section 3). With
sequence parallelism what lies between is cut along the sequence (arXiv:2205.05198, section 4.2);
with loss parallelism the logits are never gathered.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.recipe import Parallel, Recipe, make_pass, sizes_of, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    sequence_parallel: Annotated[bool, "cut norms and residuals along the sequence"] = True
    loss_parallel: Annotated[bool, "keep the logits cut over the vocabulary"] = True


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where the ranks do not divide the heads."""
    return train(config, dist, parallelize)


def parallelize(decoder: nn.Module, config: Config, dist: Dist) -> Parallel:
    """The decoder with its matrices cut over all ranks. Raises ValueError."""
    refuse(config, dist.world_size)
    cut(
        decoder,
        dist.mesh(tensor=dist.world_size),
        sequence_parallel=config.sequence_parallel,
        loss_parallel=config.loss_parallel,
    )
    context = loss_parallel if config.loss_parallel else nullcontext
    return Parallel(
        model=decoder,
        both_ways=make_pass(decoder, dist.device, config.half, context),
        replica=0,
        ranks_per_replica=dist.world_size,
    )


def refuse(config: Recipe, num_ranks: int) -> None:
    """Raise ValueError for what cannot be cut over so many ranks."""
    sizes = sizes_of(config)
    if sizes.num_experts:
        raise ValueError(f"{config.model} has experts, which are not cut: training.expert_parallel")
    if sizes.num_kv_heads % num_ranks:
        heads = f"{sizes.num_kv_heads} key and value heads"
        raise ValueError(f"{heads} do not go to {num_ranks} ranks")


def cut(model: Any, mesh: DeviceMesh, *, sequence_parallel: bool, loss_parallel: bool) -> None:
    """Cut the matrices of a decoder, or of what a stage has of one, over the mesh."""
    between = Shard(1) if sequence_parallel else Replicate()
    logits = {
        "output_layouts": Shard(-1) if loss_parallel else Replicate(),
        "use_local_output": not loss_parallel,
    }
    around = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "out": ColwiseParallel(input_layouts=between, **logits),
    }
    inside = {
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=between),
        "feed_forward.gate": ColwiseParallel(),
        "feed_forward.up": ColwiseParallel(),
        "feed_forward.down": RowwiseParallel(output_layouts=between),
    }
    if sequence_parallel:
        around["norm"] = SequenceParallel()
        inside |= {
            "attention_norm": SequenceParallel(),
            "feed_forward_norm": SequenceParallel(),
            "attention": _gathered(2),
            "feed_forward": _gathered(0),
        }
    held = {name for name, _ in model.named_children()}
    parallelize_module(model, mesh, {name: way for name, way in around.items() if name in held})
    for block in model.blocks.children():
        parallelize_module(block, mesh, inside)


def _gathered(num_tables: int) -> PrepareModuleInput:
    """The whole sequence before a layer; the tables of positions stay as they are."""
    others = (None,) * num_tables
    return PrepareModuleInput(
        input_layouts=(Shard(1), *others), desired_input_layouts=(Replicate(), *others)
    )
