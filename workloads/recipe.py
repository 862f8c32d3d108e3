"""What all training workloads do alike: their options, the batches, the loss and the loop.

Tokens are random, but some are far more frequent, as words are, so that the loss must fall. A few
batches come round again and again: no data loading is measured. B batch, T sequence, V vocabulary.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Annotated, Literal

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from workloads.dist import Dist
from workloads.flops import model_flops_per_token
from workloads.harness import Facts
from workloads.models.decoder import PRESETS, Decoder, Preset

NUM_BATCHES = 8
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The command line that they share."""

    model: Annotated[Preset, "preset of models/decoder.py"] = "small"
    seq_len: Annotated[int, "tokens per sequence"] = 128
    batch_size: Annotated[int, "sequences per rank and step"] = 4
    steps: Annotated[int, "optimizer steps"] = 200
    learning_rate: Annotated[float, "of AdamW, constant"] = 1e-3
    precision: Annotated[Literal["float32", "bfloat16"], "of the matrix products"] = "float32"
    seed: Annotated[int, "of weights and tokens"] = 1

    @property
    def is_half(self) -> bool:
        return self.precision == "bfloat16"


def make_decoder(recipe: Recipe, dist: Dist) -> Decoder:
    """The decoder, with the same weights on every rank."""
    torch.manual_seed(recipe.seed)
    return Decoder(PRESETS[recipe.model], recipe.seq_len).to(dist.device)


def flops_per_token(recipe: Recipe, decoder: Decoder) -> int:
    """Model FLOPs of forward and backward; asked of the whole decoder, before it is sharded."""
    sizes = PRESETS[recipe.model]
    return model_flops_per_token(
        num_params=decoder.num_matmul_params(),
        num_layers=sizes.num_layers,
        num_heads=sizes.num_heads,
        head_dim=sizes.head_dim,
        seq_len=recipe.seq_len,
    )


def batches(recipe: Recipe, dist: Dist, replica: int) -> Iterator[Tensor]:
    """Endless windows of T + 1 tokens, different for every replica, already on its device.

    Ranks that hold one replica of the model together, such as in tensor parallelism, share them.
    """
    generator = torch.Generator().manual_seed(recipe.seed + replica)
    shape = (NUM_BATCHES, recipe.batch_size, recipe.seq_len + 1)
    uniform = torch.rand(shape, generator=generator)
    return cycle((uniform**3 * PRESETS[recipe.model].vocab_size).long().to(dist.device))


def loss_of(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean cross entropy of each next token, in float32."""
    return cross_entropy(logits_BTV.flatten(0, 1).float(), targets_BT.flatten())


Pass = Callable[[Tensor], Tensor]  # from a window to its loss; leaves gradients at the weights


def make_pass(model: nn.Module, *, autocast: bool, weight: float = 1.0) -> Pass:
    """Forward and backward of a whole model. `weight` is how much the loss counts for gradients.

    `autocast` runs matrix products in half precision; a model may do so by itself instead.
    """
    device_type = next(model.parameters()).device.type
    half = torch.autocast(device_type, torch.bfloat16, enabled=autocast)

    def both_ways(window_BT: Tensor) -> Tensor:
        with half:
            logits_BTV = model(window_BT[:, :-1])
        loss = loss_of(logits_BTV, window_BT[:, 1:])
        (weight * loss).backward()
        return loss.detach()

    return both_ways


def train(
    weights: Iterable[nn.Parameter],
    both_ways: Pass,
    windows_BT: Iterator[Tensor],
    recipe: Recipe,
    flops_per_token: int,
    *,
    ranks_per_replica: int = 1,
    stages: c10d.ProcessGroup | None = None,
) -> Iterator[Facts]:
    """The loop: one optimizer step for each that is asked for.

    A step counts this rank's share of the tokens of its replica. `stages` are the ranks that hold
    other weights of it, whose gradients are clipped together with ours.
    """
    groups = by_kind(weights)
    optimizer = torch.optim.AdamW(
        [{"params": group} for group in groups], lr=recipe.learning_rate, fused=True
    )
    tokens = recipe.batch_size * recipe.seq_len // ranks_per_replica
    for window_BT in windows_BT:
        loss = both_ways(window_BT)
        clip_gradients(groups, stages)
        optimizer.step()
        optimizer.zero_grad()
        yield {"tokens": tokens, "loss": loss, "model_flops": tokens * flops_per_token}


def by_kind(weights: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Sharded weights and plain ones apart: no operator takes both at once."""
    kinds: dict[bool, list[nn.Parameter]] = {}
    for weight in weights:
        kinds.setdefault(isinstance(weight, DTensor), []).append(weight)
    return list(kinds.values())


def clip_gradients(
    groups: Sequence[Sequence[nn.Parameter]], stages: c10d.ProcessGroup | None = None
) -> None:
    """Scale all gradients down to a norm of MAX_GRAD_NORM together, where it is larger."""
    norms = [
        nn.utils.get_total_norm([w.grad for w in group if w.grad is not None]) for group in groups
    ]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    square = torch.stack(whole).square().sum()
    if stages is not None:
        c10d.all_reduce(square, group=stages)
    for group in groups:
        nn.utils.clip_grads_with_norm_(group, MAX_GRAD_NORM, square.sqrt())
