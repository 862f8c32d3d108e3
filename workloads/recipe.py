"""What all training workloads do alike: their options, the batches, the loss and the loop.

Tokens are random, but some are far more frequent, as words are, so that the loss must fall. A few
batches come round again and again: no data loading is measured. B batch, T sequence, V vocabulary.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import cycle
from typing import Annotated, Any, Literal

import torch
import torch.distributed as c10d
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from workloads.dist import Dist, wait_for
from workloads.flops import model_flops_per_token
from workloads.harness import Facts
from workloads.models.decoder import PRESETS, Decoder, DecoderConfig, draw
from workloads.transforms import Optimizer, Pass, accumulated, checkpointed, compiled

NUM_BATCHES = 8
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The command line that they share."""

    model: Annotated[str, "preset of models/decoder.py, or your own as package.module:build"] = (
        "small"
    )
    num_layers: Annotated[int, "blocks, 0 for those of the preset"] = 0
    seq_len: Annotated[int, "tokens per sequence"] = 128
    batch_size: Annotated[int, "sequences per rank and step"] = 4
    accumulate: Annotated[int, "parts of a batch whose gradients are added up"] = 1
    steps: Annotated[int, "optimizer steps"] = 200
    learning_rate: Annotated[float, "of AdamW, constant"] = 1e-3
    clip: Annotated[float, "largest norm of all gradients together, 0 for any"] = 1.0
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"], "of the matrix products; float16 scales the loss"
    ] = "float32"
    checkpointing: Annotated[bool, "recompute each block's activations going backward"] = False
    compile: Annotated[bool, "torch.compile each block before the first step"] = False
    init: Annotated[
        Literal["whole", "held"],
        "draw all weights on every rank, the same in all modes, or those that a rank holds",
    ] = "whole"
    seed: Annotated[int, "of weights and tokens"] = 1

    @property
    def half(self) -> torch.dtype | None:
        """The half precision asked for."""
        return HALVES.get(self.precision)


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """A decoder cut over the ranks: what this one holds of it, and how it works on a batch.

    `ranks_per_replica` hold one replica together and share its batches. `stages` are those of
    them that hold other weights which are no DTensors.
    """

    model: nn.Module
    both_ways: Pass
    replica: int
    ranks_per_replica: int = 1
    stages: c10d.ProcessGroup | None = None


# How a mode cuts a decoder. Raises ValueError where something does not divide.
Parallelize = Callable[[Any, Any, Dist], Parallel]


def train(config: Recipe, dist: Dist, parallelize: Parallelize) -> Iterator[Facts]:
    """Set up; then one optimizer step for each that is asked for."""
    training = Training(config, dist, parallelize)
    windows_BT = training.batches()
    once = {"compile_time_s": training.compile(next(windows_BT))} if config.compile else {}
    return _steps(training, windows_BT, once)


def _steps(training: "Training", windows_BT: Iterator[Tensor], once: Facts) -> Iterator[Facts]:
    yield {**training.step(next(windows_BT)), **once}
    for window_BT in windows_BT:
        yield training.step(window_BT)


class Training:
    """A decoder of a recipe, cut over the ranks, on its way. Raises ValueError for options that
    contradict each other.
    """

    def __init__(self, config: Recipe, dist: Dist, parallelize: Parallelize) -> None:
        if config.accumulate < 1 or config.batch_size % config.accumulate:
            detail = f"a batch of {config.batch_size} has no {config.accumulate} equal parts"
            raise ValueError(f"{detail}; let accumulate divide batch_size")
        decoder = make_decoder(config, dist)
        self.vocab_size, flops_per_token = decoder.vocab_size, flops_of(config, decoder)
        parallel = parallelize(decoder, config, dist)
        self.model = parallel.model
        if config.init == "held":
            draw(parallel.model, dist.device, config.seed, dist.rank)
        self.optimizer = make_optimizer(parallel, config, dist)
        self._config, self._device, self._replica = config, dist.device, parallel.replica
        self._both_ways = accumulated(parallel.both_ways, parallel.model, config.accumulate)
        # This rank's share of the tokens of its replica.
        tokens = config.batch_size * config.seq_len // parallel.ranks_per_replica
        self._facts: dict[str, Any] = {"tokens": tokens}
        if flops_per_token is not None:
            self._facts["model_flops"] = tokens * flops_per_token

    def batches(self) -> Iterator[Tensor]:
        """Endless random windows of T + 1 tokens, the same on the ranks of a replica."""
        return batches(self._config, self._device, self.vocab_size, self._replica)

    def step(self, window_BT: Tensor) -> Facts:
        """One optimizer step, and what there is to note of it."""
        loss = self._both_ways(window_BT, self.optimizer.scale)
        self.optimizer.clip()
        self.optimizer.step()
        return self._facts | {"loss": loss}

    def compile(self, window_BT: Tensor) -> float:
        """Seconds of a first pass, in which the blocks are compiled; it changes no weight."""
        start = time.perf_counter()
        self._both_ways(window_BT, self.optimizer.scale)
        wait_for(self._device)
        self.optimizer.forget()
        return time.perf_counter() - start


def make_optimizer(parallel: Parallel, config: Recipe, dist: Dist) -> Optimizer:
    """The optimizer of the weights that this rank holds."""
    return Optimizer(
        parallel.model.parameters(),
        learning_rate=config.learning_rate,
        max_norm=config.clip,
        device=dist.device,
        is_scaled=config.half is torch.float16,
        stages=parallel.stages,
    )


def make_decoder(config: Recipe, dist: Dist) -> Any:
    """The decoder, with the same weights on every rank, or none yet. Raises ValueError for a model
    that we do not know, and for one of the project's own whose weights are not drawn here.
    """
    if ":" in config.model and config.init == "held":
        raise ValueError(f"how to draw the weights of {config.model} is its own affair: init whole")
    torch.manual_seed(config.seed)
    with torch.device("meta") if config.init == "held" else dist.device:
        own = ":" in config.model
        decoder = _built(config) if own else Decoder(sizes_of(config), config.seq_len)
    if config.checkpointing:
        decoder = checkpointed(decoder)
    return compiled(decoder) if config.compile else decoder


def _built(config: Recipe) -> nn.Module:
    """The model that the project's own function makes for sequences of a length."""
    module, _, name = config.model.partition(":")
    model = getattr(import_module(module), name)(config.seq_len)
    if not isinstance(getattr(model, "vocab_size", None), int):
        raise ValueError(f"what {config.model} makes has no vocab_size; the tokens need it")
    return model


def sizes_of(config: Recipe) -> DecoderConfig:
    """Sizes of the preset. Raises ValueError for a model that is none."""
    if config.model not in PRESETS:
        raise ValueError(f"model {config.model!r} is no preset; there are {', '.join(PRESETS)}")
    if config.num_layers < 0:
        raise ValueError(f"num_layers is {config.num_layers}; give 0 for the preset's, or more")
    preset = PRESETS[config.model]
    return replace(preset, num_layers=config.num_layers) if config.num_layers else preset


def flops_of(config: Recipe, decoder: Any) -> int | None:
    """Model FLOPs of forward and backward of a token; asked of the whole decoder, before it is
    cut. None for a project's own model, whose sizes we do not know.
    """
    if not isinstance(decoder, Decoder):
        return None
    sizes = sizes_of(config)
    return model_flops_per_token(
        num_params=decoder.num_matmul_params(),
        num_layers=sizes.num_layers,
        num_heads=sizes.num_heads,
        head_dim=sizes.head_dim,
        seq_len=config.seq_len,
    )


def batches(
    config: Recipe, device: torch.device, vocab_size: int, replica: int
) -> Iterator[Tensor]:
    """Endless windows of T + 1 tokens, different for every replica, already on its device."""
    generator = torch.Generator().manual_seed(config.seed + replica)
    shape = (NUM_BATCHES, config.batch_size, config.seq_len + 1)
    uniform = torch.rand(shape, generator=generator)
    return cycle((uniform**3 * vocab_size).long().to(device))


def loss_of(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean cross entropy of each next token, in float32."""
    return cross_entropy(logits_BTV.flatten(0, 1).float(), targets_BT.flatten())


def make_pass(
    model: nn.Module,
    device: torch.device,
    autocast: torch.dtype | None = None,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Pass:
    """Forward and backward of a whole model, within `context`.

    `autocast` is a half precision to run matrix products in; a model may do so by itself instead.
    """
    half = torch.autocast(device.type, autocast or torch.bfloat16, enabled=autocast is not None)

    def both_ways(window_BT: Tensor, weight: float) -> Tensor:
        with context():
            with half:
                logits_BTV = model(window_BT[:, :-1])
            loss = loss_of(logits_BTV, window_BT[:, 1:])
            (weight * loss).backward()
            return loss.detach()

    return both_ways
