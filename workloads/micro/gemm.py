"""Matrix products of given shapes: M rows, N columns, K numbers in each sum."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.shapes import shapes
from workloads.sweep import Dtype, Repeats, Steps, at_least

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line."""

    shapes: Annotated[str, "MxNxK, with commas"] = "256x256x256,512x512x512,1024x1024x1024"
    dtype: Dtype = "float32"
    repeats: Repeats = 5
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, repeats=self.repeats)
        shapes("shapes", self.shapes, num_dims=3)


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps."""
    products = {
        shape: product(shape, getattr(torch, config.dtype), dist.device)
        for shape in shapes("shapes", config.shapes, num_dims=3)
    }
    return steps(products, config.repeats, Stopwatch(dist.device))


def product(shape: Shape, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """A product of random matrices: of zeros, a GPU multiplies faster."""
    rows, columns, inner = shape
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(rows, inner, generator=generator).to(device, dtype)
    right = torch.randn(inner, columns, generator=generator).to(device, dtype)
    return partial(torch.mm, left, right, out=left.new_empty(rows, columns))


def steps(
    products: dict[Shape, Callable[[], object]], repeats: int, watch: Stopwatch
) -> Iterator[Facts]:
    """Steps: each times every shape."""
    while True:
        yield {
            f"flops_per_s@{rows}x{columns}x{inner}": watch.mean(call, repeats).then(
                partial(flops_per_s, rows, columns, inner)
            )
            for (rows, columns, inner), call in products.items()
        }


def flops_per_s(rows: int, columns: int, inner: int, time_s: float) -> float:
    """2 M N K / t: a multiplication and an addition for each term of each sum."""
    return 2 * rows * columns * inner / time_s
