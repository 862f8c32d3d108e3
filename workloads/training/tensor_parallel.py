"""Tensor-parallel training: every matrix cut over the ranks, which work on the same batch.

Columns of the first matrix of a layer, rows of the second (arXiv:1909.08053, section 3). With
sequence parallelism what lies between is cut along the sequence (arXiv:2205.05198, section 4.2);
with loss parallelism the logits are never gathered.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
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
from workloads.models.decoder import PRESETS, Decoder
from workloads.recipe import Recipe, batches, flops_per_token, make_decoder, make_pass, train


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    sequence_parallel: Annotated[bool, "cut norms and residuals along the sequence"] = True
    loss_parallel: Annotated[bool, "keep the logits cut over the vocabulary"] = True


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where the ranks do not divide the heads."""
    decoder = make_decoder(config, dist)
    flops = flops_per_token(config, decoder)
    model = parallelize(decoder, config, dist)
    both_ways = make_pass(model, autocast=config.is_half)
    size = ranks_per_replica(config, dist)
    windows_BT = batches(config, dist, dist.rank // size)
    steps = train(model.parameters(), both_ways, windows_BT, config, flops, ranks_per_replica=size)
    return _within(context(config), steps)


def _within(context: AbstractContextManager[Any], steps: Iterator[Facts]) -> Iterator[Facts]:
    with context:
        yield from steps


def ranks_per_replica(_config: Config, dist: Dist) -> int:
    """All ranks hold one replica of the model together."""
    return dist.world_size


def context(config: Config) -> AbstractContextManager[Any]:
    """What forward and backward run in."""
    return loss_parallel() if config.loss_parallel else nullcontext()


def parallelize(decoder: Decoder, config: Config, dist: Dist) -> nn.Module:
    """The decoder with its matrices cut over all ranks. Raises ValueError."""
    if PRESETS[config.model].num_experts:
        raise ValueError(f"{config.model} has experts, which are not cut: training.expert_parallel")
    num_kv_heads = PRESETS[config.model].num_kv_heads
    if num_kv_heads % dist.world_size:
        raise ValueError(f"{num_kv_heads} key and value heads do not go to {dist.world_size} ranks")
    mesh = init_device_mesh(dist.device.type, (dist.world_size,), mesh_dim_names=("tensor",))
    between = Shard(1) if config.sequence_parallel else Replicate()
    logits = {
        "output_layouts": Shard(-1) if config.loss_parallel else Replicate(),
        "use_local_output": not config.loss_parallel,
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
    if config.sequence_parallel:
        around["norm"] = SequenceParallel()
        inside |= {
            "attention_norm": SequenceParallel(),
            "feed_forward_norm": SequenceParallel(),
            "attention": _gathered(2),
            "feed_forward": _gathered(0),
        }
    parallelize_module(decoder, mesh, around)
    for block in decoder.blocks:
        parallelize_module(block, mesh, inside)
    return decoder


def _gathered(num_tables: int) -> PrepareModuleInput:
    """The whole sequence before a layer; the tables of positions stay as they are."""
    others = (None,) * num_tables
    return PrepareModuleInput(
        input_layouts=(Shard(1), *others), desired_input_layouts=(Replicate(), *others)
    )
