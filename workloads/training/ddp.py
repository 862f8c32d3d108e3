"""Data-parallel training of the decoder: DistributedDataParallel, AdamW, gradient clipping.

Tokens are random, but some are far more frequent, as words are, so that the loss must fall. A few
batches come round again and again: no data loading is measured. B batch, T sequence, V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from workloads.dist import Dist
from workloads.flops import model_flops_per_token
from workloads.harness import Step
from workloads.models.decoder import PRESETS, Decoder, Preset

NUM_BATCHES = 8
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line."""

    model: Annotated[Preset, "preset of models/decoder.py"] = "small"
    seq_len: Annotated[int, "tokens per sequence"] = 128
    batch_size: Annotated[int, "sequences per rank and step"] = 4
    steps: Annotated[int, "optimizer steps"] = 200
    learning_rate: Annotated[float, "of AdamW, constant"] = 1e-3
    precision: Annotated[Literal["float32", "bfloat16"], "of the matrix products"] = "float32"
    seed: Annotated[int, "of weights and tokens"] = 1


def run(config: Config, dist: Dist) -> Iterator[Step]:
    """Set up and return the steps."""
    sizes = PRESETS[config.model]
    torch.manual_seed(config.seed)
    decoder = Decoder(sizes, config.seq_len).to(dist.device)
    model = DistributedDataParallel(decoder, device_ids=dist.device_ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, fused=True)
    flops_per_token = model_flops_per_token(
        num_params=decoder.num_matmul_params(),
        num_layers=sizes.num_layers,
        num_heads=sizes.num_heads,
        head_dim=sizes.head_dim,
        seq_len=config.seq_len,
    )
    return train(model, optimizer, batches(config, sizes.vocab_size, dist), config, flops_per_token)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    windows_BT: Iterator[Tensor],
    config: Config,
    flops_per_token: int,
) -> Iterator[Step]:
    """The loop: one optimizer step for each that is asked for."""
    device_type = next(model.parameters()).device.type
    half = torch.autocast(device_type, torch.bfloat16, enabled=config.precision == "bfloat16")
    for window_BT in windows_BT:
        tokens_BT, targets_BT = window_BT[:, :-1], window_BT[:, 1:]
        with half:
            logits_BTV = model(tokens_BT)
        loss = cross_entropy(logits_BTV.flatten(0, 1).float(), targets_BT.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad()

        tokens = tokens_BT.numel()
        yield Step(tokens=tokens, loss=loss.detach(), model_flops=tokens * flops_per_token)


def batches(config: Config, vocab_size: int, dist: Dist) -> Iterator[Tensor]:
    """Endless windows of T + 1 tokens, different on every rank, already on its device."""
    generator = torch.Generator().manual_seed(config.seed + dist.rank)
    shape = (NUM_BATCHES, config.batch_size, config.seq_len + 1)
    uniform = torch.rand(shape, generator=generator)
    return cycle((uniform**3 * vocab_size).long().to(dist.device))
