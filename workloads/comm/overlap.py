"""Overlap: matrix products alone, an all-reduce alone, and both at once, as in a backward pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.distributed as c10d

from workloads import groups
from workloads.collectives import Exchange, Numbers, checked, meeting
from workloads.dist import Dist, Later, Stopwatch
from workloads.harness import Facts
from workloads.sweep import Dtype, Steps, at_least


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line. Choose products and message so that both take about as long."""

    matrix_size: Annotated[int, "rows and columns of each matrix"] = 512
    num_products: Annotated[int, "matrix products, one after the other"] = 4
    message_bytes: Annotated[int, "of the all-reduce"] = 4 * 1024**2
    group: groups.Kind = "world"
    dtype: Dtype = "float32"
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, matrix_size=self.matrix_size, num_products=self.num_products)
        itemsize = getattr(torch, self.dtype).itemsize
        at_least(itemsize, message_bytes=self.message_bytes)
        if self.message_bytes % itemsize:
            raise ValueError(
                f"message_bytes is {self.message_bytes}; give a multiple of {itemsize}, "
                f"the bytes of a {self.dtype}"
            )


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up, checked while both run at once, and return the steps."""
    dtype = getattr(torch, config.dtype)
    group = groups.connect(config.group, dist)
    numel = config.message_bytes // dtype.itemsize
    numbers = Numbers(group=group, numel=numel, dtype=dtype, device=dist.device)
    x = numbers.mine()
    compute = products(config, dtype, dist)

    def communicate() -> c10d.Work:
        return c10d.all_reduce(x, group=group.handle, async_op=True)

    both = Exchange(
        call=lambda: at_once(compute, communicate), given=x, result=x, expected=numbers.total()
    )
    checked(both, f"rank {dist.rank}: overlapped all_reduce of {config.message_bytes} bytes")
    return steps(compute, communicate, Stopwatch(dist.device), meeting(dist))


def products(config: Config, dtype: torch.dtype, dist: Dist) -> Callable[[], None]:
    """What is computed. Numbers are random: of zeros, a GPU multiplies faster."""
    shape = (2, config.matrix_size, config.matrix_size)
    generator = torch.Generator().manual_seed(1)
    left, right = torch.randn(shape, generator=generator).to(dist.device, dtype)
    product = torch.empty_like(left)

    def compute() -> None:
        for _ in range(config.num_products):
            torch.mm(left, right, out=product)

    return compute


def at_once(compute: Callable[[], None], communicate: Callable[[], c10d.Work]) -> None:
    """Communication starts first and goes on behind the products. On a GPU no host waits."""
    work = communicate()
    compute()
    work.wait()


def steps(
    compute: Callable[[], None],
    communicate: Callable[[], c10d.Work],
    watch: Stopwatch,
    meet: Callable[[], object],
) -> Iterator[Facts]:
    """Steps: each times one, the other and both."""
    while True:
        meet()
        compute_s = watch.mean(compute, 1)
        meet()
        communication_s = watch.mean(lambda: communicate().wait(), 1)
        meet()
        overlapped_s = watch.mean(lambda: at_once(compute, communicate), 1)
        yield facts_of(compute_s, communication_s, overlapped_s)


def facts_of(compute_s: Later, communication_s: Later, overlapped_s: Later) -> Facts:
    """What there is to note of a step."""
    times = (compute_s, communication_s, overlapped_s)
    return {
        "compute_time_s": compute_s,
        "communication_time_s": communication_s,
        "overlapped_time_s": overlapped_s,
        "overlap_ratio": Later(lambda: overlap_ratio(*(time.item() for time in times))),
    }


def overlap_ratio(compute_s: float, communication_s: float, overlapped_s: float) -> float:
    """The share of the shorter that the longer has hidden.

    1 where both take no longer than the longer alone, 0 where they might as well have followed
    each other, below 0 where they hinder each other.
    """
    hidden_s = compute_s + communication_s - overlapped_s
    return hidden_s / min(compute_s, communication_s)
