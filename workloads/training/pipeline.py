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
from workloads.recipe import Pass, Recipe, batches, flops_per_token, loss_of, make_decoder, train

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


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError where something does not divide."""
    decoder = make_decoder(config, dist)
    flops = flops_per_token(config, decoder)
    model = parallelize(decoder, config, dist)
    return train(
        model.parameters(),
        passes(model, config, dist),
        batches(config, dist, 0),
        config,
        flops,
        ranks_per_replica=dist.world_size,
        stages=stages(),
    )


def stages() -> c10d.ProcessGroup | None:
    """The ranks that hold the other weights: all."""
    return c10d.group.WORLD


def ranks_per_replica(_config: Config, dist: Dist) -> int:
    """All ranks hold one replica of the model together."""
    return dist.world_size


def parallelize(decoder: Decoder, config: Config, dist: Dist) -> nn.ModuleList:
    """This rank's stages, in the order of the schedule. Raises ValueError."""
    num_stages = config.stages_per_rank * dist.world_size
    if len(decoder.blocks) < num_stages:
        detail = f"{config.model} has {len(decoder.blocks)} blocks, too few for {num_stages} stages"
        raise ValueError(detail)
    if config.batch_size % config.microbatches:
        detail = f"a batch of {config.batch_size} has no {config.microbatches} equal microbatches"
        raise ValueError(detail)
    second = 2 * dist.world_size - 1 - dist.rank
    if config.schedule not in _COMING_BACK:
        second = dist.world_size + dist.rank
    indices = (dist.rank, second)[: config.stages_per_rank]
    return nn.ModuleList(Stage(decoder, index, num_stages) for index in indices)


def passes(model: nn.ModuleList, config: Config, dist: Dist, weight: float = 1.0) -> Pass:
    """Forward and backward of all microbatches. `weight` is how much the loss counts."""
    num_stages = config.stages_per_rank * dist.world_size
    schedule = _schedule(model, config, dist, num_stages, weight)
    is_first = any(stage.index == 0 for stage in model)
    is_last = any(stage.index == num_stages - 1 for stage in model)

    def both_ways(window_BT: Tensor) -> Tensor:
        losses: list[Tensor] = []
        wanted = {"target": window_BT[:, 1:], "losses": losses} if is_last else {}
        with torch.autocast(dist.device.type, torch.bfloat16, enabled=config.is_half):
            schedule.step(*([window_BT[:, :-1]] if is_first else []), **wanted)
        zero = torch.zeros((), device=dist.device)
        loss = torch.stack(losses).detach().mean() / weight if is_last else zero
        c10d.all_reduce(loss)  # the others have none
        return loss

    return both_ways


def _schedule(
    model: nn.ModuleList, config: Config, dist: Dist, num_stages: int, weight: float
) -> Any:
    made: list[Any] = [
        PipelineStage(stage, stage.index, num_stages, dist.device)  # type: ignore[arg-type]
        for stage in model
    ]
    return get_schedule_class(config.schedule)(
        made if config.stages_per_rank == 2 else made[0],
        config.microbatches,
        loss_fn=lambda logits_BTV, targets_BT: weight * loss_of(logits_BTV, targets_BT),
    )
