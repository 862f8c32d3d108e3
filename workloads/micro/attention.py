"""Causal attention, forward and backward, by sequence length.

B batch, H heads, T sequence, D head.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch.nn.functional import scaled_dot_product_attention

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.shapes import shapes
from workloads.sweep import Dtype, Repeats, Steps, at_least


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line."""

    seq_lens: Annotated[str, "tokens per sequence, with commas"] = "128,256,512"
    batch_size: Annotated[int, "sequences"] = 1
    num_heads: Annotated[int, "of queries, keys and values alike"] = 8
    head_dim: Annotated[int, "numbers per head"] = 64
    dtype: Dtype = "float32"
    repeats: Repeats = 5
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, batch_size=self.batch_size, num_heads=self.num_heads, head_dim=self.head_dim)
        at_least(1, repeats=self.repeats)
        shapes("seq_lens", self.seq_lens, num_dims=1)


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    calls = {
        seq_len: both_ways(config, seq_len, dist.device)
        for (seq_len,) in shapes("seq_lens", config.seq_lens, num_dims=1)
    }
    return steps(config, calls, Stopwatch(dist.device))


def both_ways(config: Config, seq_len: int, device: torch.device) -> Callable[[], object]:
    """Forward and backward. The gradients are left to nobody, so none are added up."""
    shape = (4, config.batch_size, config.num_heads, seq_len, config.head_dim)
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    *inputs_BHTD, gradient_BHTD = numbers.to(device, getattr(torch, config.dtype))
    for tensor in inputs_BHTD:
        tensor.requires_grad_()

    def call() -> None:
        out_BHTD = scaled_dot_product_attention(*inputs_BHTD, is_causal=True)
        torch.autograd.grad(out_BHTD, inputs_BHTD, gradient_BHTD)

    return call


def steps(
    config: Config, calls: dict[int, Callable[[], object]], watch: Stopwatch
) -> Iterator[Facts]:
    """Steps: each times every length."""
    num_heads = config.batch_size * config.num_heads
    while True:
        yield {
            f"flops_per_s@{seq_len}": watch.mean(call, config.repeats).then(
                partial(flops_per_s, seq_len, num_heads, config.head_dim)
            )
            for seq_len, call in calls.items()
        }


def flops_per_s(seq_len: int, num_heads: int, head_dim: int, time_s: float) -> float:
    """3.5 × 2 T² D / t for each head of each sequence.

    Forward is two products of 2 T² D, of which a causal mask leaves half; backward is 2.5 times
    that: FlashAttention-2 (arXiv:2307.08691), section 4.1.
    """
    return 3.5 * 2 * seq_len**2 * head_dim * num_heads / time_s
