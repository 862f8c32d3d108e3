"""Pipeline-parallel training: every rank holds one or two stages, a run of the decoder's blocks.

The schedule is torch's, by its name. Those that interleave give each rank two stages: rank r has r
and r + P of P ranks, or, where the second run comes back (V), r and 2P - 1 - r.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.models.decoder import Decoder
from workloads.recipe import Parallel, Recipe, loss_of, sizes_of, train
from workloads.transforms import Pass

_COMING_BACK = ("ZBVZeroBubble", "DualPipeV")


@dataclass(frozen=True, kw_only=True)
class Config(Recipe):
    """The command line."""

    batch_size: Annotated[int, "sequences per step"] = 16
    schedule: Annotated[
        Literal[
            "GPipe",
            "1F1B",
            "LoopedBFS",
            "Interleaved1F1B",
            "InterleavedZeroBubble",
            "ZBVZeroBubble",
            "DualPipeV",
        ],
        "order of the microbatches' passes",
    ] = "1F1B"
    microbatches: Annotated[int, "parts of a batch that follow each other"] = 8

    @property
    def stages_per_rank(self) -> int:
        return 2 if issubclass(get_schedule_class(self.schedule), PipelineScheduleMulti) else 1


class Stage(nn.Module):
    """A run of blocks, with the embedding before the first and the logits after the last."""

    def __init__(self, decoder: Decoder, index: int, num_stages: int) -> None:
        super().__init__()
        num_blocks = len(decoder.blocks)
        mine = range(index * num_blocks // num_stages, (index + 1) * num_blocks // num_stages)
        self.index = index
        self.embedding = decoder.embedding if index == 0 else None
        self.blocks = nn.ModuleDict({str(number): decoder.blocks[number] for number in mine})
        self.norm = decoder.norm if index == num_stages - 1 else None
        self.out = decoder.out if index == num_stages - 1 else None
        self.register_buffer("cos_TC", decoder.cos_TC, persistent=False)
        self.register_buffer("sin_TC", decoder.sin_TC, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """From tokens_BT or x_BTD of the stage before to x_BTD or logits_BTV."""
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x, self.cos_TC, self.sin_TC)
        if self.norm is not None and self.out is not None:
            x = self.out(self.norm(x))
        return x


@dataclass(frozen=True, kw_only=True)
class Pipe:
    """This rank's place among those that pass a batch on to each other."""

    rank: int
    size: int
    group: c10d.ProcessGroup


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where something does not divide."""
    return train(config, dist, parallelize)


def parallelize(decoder: Any, config: Config, dist: Dist) -> Parallel:
    """This rank's stages. Raises ValueError."""
    refuse(config, dist.world_size)
    pipe = Pipe(rank=dist.rank, size=dist.world_size, group=c10d.group.WORLD)
    model = stages_of(decoder, config, pipe)
    return Parallel(
        model=model,
        both_ways=passes(model, config, dist, pipe, passed(config)),
        replica=0,
        ranks_per_replica=dist.world_size,
        stages=pipe.group,
    )


def refuse(config: Config, num_ranks: int) -> None:
    """Raise ValueError for what has no stages for so many ranks, or no microbatches."""
    num_stages, num_layers = config.stages_per_rank * num_ranks, sizes_of(config).num_layers
    if num_layers < num_stages:
        detail = f"{config.model} has {num_layers} blocks, too few for {num_stages} stages"
        raise ValueError(detail)
    if config.accumulate > 1:
        raise ValueError("a pipeline adds up over its microbatches: set those, not accumulate")
    if config.batch_size % config.microbatches:
        detail = f"a batch of {config.batch_size} has no {config.microbatches} equal microbatches"
        raise ValueError(detail)


def stages_of(decoder: Decoder, config: Config, pipe: Pipe) -> nn.ModuleList:
    """This rank's stages, in the order of the schedule."""
    second = 2 * pipe.size - 1 - pipe.rank
    if config.schedule not in _COMING_BACK:
        second = pipe.size + pipe.rank
    indices = (pipe.rank, second)[: config.stages_per_rank]
    num_stages = config.stages_per_rank * pipe.size
    return nn.ModuleList(Stage(decoder, index, num_stages) for index in indices)


def passed(
    config: Config, dtype: torch.dtype = torch.float32, parts_of_sequence: int = 1
) -> Tensor:
    """What a stage passes on of a microbatch, without data."""
    sequence = config.seq_len // parts_of_sequence
    shape = (config.batch_size // config.microbatches, sequence, sizes_of(config).dim)
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)


def passes(
    model: nn.ModuleList, config: Config, dist: Dist, pipe: Pipe, passed_BTD: Tensor
) -> Pass:
    """Forward and backward of all microbatches; every rank has the loss.

    torch finds out by itself what stages pass on to each other, and warns if it is something else.
    """
    num_stages = config.stages_per_rank * pipe.size
    indices = [stage.index for stage in model]
    is_first, is_last = 0 in indices, num_stages - 1 in indices
    counts = 1.0

    def loss_fn(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        return counts * loss_of(logits_BTV, targets_BT)

    made = [
        PipelineStage(
            stage,
            index,
            num_stages,
            dist.device,
            input_args=passed_BTD if index else None,
            group=pipe.group,
        )
        for stage, index in zip(model, indices, strict=True)
    ]
    schedule: Any = get_schedule_class(config.schedule)(
        made if config.stages_per_rank == 2 else made[0], config.microbatches, loss_fn=loss_fn
    )

    def both_ways(window_BT: Tensor, weight: float) -> Tensor:
        nonlocal counts
        counts = weight
        losses: list[Tensor] = []
        wanted = {"target": window_BT[:, 1:], "losses": losses} if is_last else {}
        half = config.half or torch.bfloat16
        with torch.autocast(dist.device.type, half, enabled=config.half is not None):
            schedule.step(*([window_BT[:, :-1]] if is_first else []), **wanted)
        zero = torch.zeros((), device=dist.device)
        loss = torch.stack(losses).detach().mean() / weight if is_last else zero
        c10d.all_reduce(loss, group=pipe.group)  # the others have none
        return loss

    return both_ways
