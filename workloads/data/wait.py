"""Training on batches from files, and how long each step waits for its own.

B batch, T sequence, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.loading import Loading, random_windows
from workloads.models.decoder import PRESETS
from workloads.recipe import Recipe, loss_of, make_decoder


@dataclass(frozen=True, kw_only=True)
class Config(Recipe, Loading):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError for files that are not such a corpus."""
    with ExitStack() as stack:
        vocab_size = PRESETS[config.model].vocab_size
        windows_BT = random_windows(config, vocab_size, dist, stack)
        model: nn.Module = make_decoder(config, dist)
        if dist.world_size > 1:
            model = DistributedDataParallel(model, device_ids=dist.device_ids)
        return train(model, windows_BT, config, Stopwatch(dist.device), stack.pop_all())


def train(
    model: nn.Module,
    windows_BT: Iterator[Tensor],
    config: Config,
    watch: Stopwatch,
    corpus: ExitStack,
) -> Iterator[Facts]:
    """The loop. On a GPU a wait that its earlier work covers takes no time, and counts as none."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, fused=True)
    device_type = next(model.parameters()).device.type
    half = torch.autocast(device_type, torch.bfloat16, enabled=config.is_half)
    with corpus:
        while True:
            start = watch.mark()
            window_BT = next(windows_BT)
            data_wait_s = watch.since(start)
            with half:
                logits_BTV = model(window_BT[:, :-1])
            loss = loss_of(logits_BTV, window_BT[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            tokens = config.batch_size * config.seq_len
            yield {"tokens": tokens, "loss": loss.detach(), "data_wait_s": data_wait_s}
