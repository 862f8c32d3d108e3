"""What all collectives do alike: their options, a check of each size, and the timed steps.

A file of comm/ says the rest by a function `prepare`: from the numbers that the ranks put in, the
buffers, the call on them and what it must leave.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import torch
import torch.distributed as c10d
from torch import Tensor

from workloads import groups
from workloads.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s, is_divided
from workloads.dist import Dist, Later, Stopwatch
from workloads.groups import Group
from workloads.harness import Facts
from workloads.sweep import Dtype, Sweep

PERIOD = 251  # prime: parts of a message that change places do not look alike
NO_NUMBER = -1  # in buffers, until something has been received
NOTHING = torch.empty(0)


@dataclass(frozen=True, kw_only=True)
class Collective(Sweep):
    """The command line that they share."""

    group: groups.Kind = "world"
    dtype: Dtype = "float32"


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What each rank of a group puts in for one size; every rank knows that of all."""

    group: Group
    numel: int  # of the message
    dtype: torch.dtype
    device: torch.device

    @property
    def numel_per_rank(self) -> int:
        return self.numel // self.group.num_ranks

    def of(self, rank: int, start: int = 0, stop: int | None = None) -> Tensor:
        """What a rank of the group puts in, from one place to another."""
        return self._tile(table(self.group.num_ranks)[rank], start, stop)

    def mine(self) -> Tensor:
        """What this rank puts in."""
        return self.of(self.group.rank)

    def total(self, start: int = 0, stop: int | None = None) -> Tensor:
        """The sum of what all put in, from one place to another."""
        return self._tile(table(self.group.num_ranks).sum(0), start, stop)

    def blank(self, numel: int) -> Tensor:
        """Room for so many."""
        return torch.full((numel,), NO_NUMBER, dtype=self.dtype, device=self.device)

    def _tile(self, row: Tensor, start: int, stop: int | None) -> Tensor:
        num = (self.numel if stop is None else stop) - start
        row = row.roll(-start).to(self.device, self.dtype)
        return row.repeat(-(-num // PERIOD))[:num]


@cache
def table(num_ranks: int) -> Tensor:
    """Random small integers, a row per rank, which repeats itself in its messages.

    A column's sum stays below 256 for any number of ranks, so that sums are exact in whichever
    order they are made: bfloat16 has a significand of 8 bits.
    """
    uniform = torch.rand(num_ranks, PERIOD, generator=torch.Generator().manual_seed(1))
    return (uniform * (1 + 128 / num_ranks)).floor()


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """An operation on its buffers; `result` is empty where it leaves nothing on this rank."""

    call: Callable[[], object]
    given: Tensor = NOTHING  # what this rank puts in
    result: Tensor = NOTHING
    expected: Tensor = NOTHING


Prepare = Callable[[Numbers], Exchange]


def measure(config: Collective, dist: Dist, op: str, prepare: Prepare) -> Iterator[Facts]:
    """Set up an operation, checked at every size, and return the steps."""
    dtype = getattr(torch, config.dtype)
    check_divides(config, op, groups.group_of(config.group, dist).num_ranks)
    group = groups.connect(config.group, dist)
    calls = {}
    for size in config.sizes():
        numbers = Numbers(
            group=group, numel=size // dtype.itemsize, dtype=dtype, device=dist.device
        )
        calls[size] = checked(prepare(numbers), f"rank {dist.rank}: {op} of {size} bytes")
    rates = partial(rates_of, op, group.num_ranks)
    return steps(calls, rates, config.repeats, Stopwatch(dist.device), meeting(dist))


def check_divides(config: Collective, op: str, num_ranks: int) -> None:
    """Raises ValueError where a message is not whole numbers, or not as many for each rank.

    All sizes are multiples of the smallest.
    """
    parts = num_ranks if is_divided(op) else 1
    unit = parts * getattr(torch, config.dtype).itemsize
    if config.min_bytes % unit:
        raise ValueError(
            f"min_bytes is {config.min_bytes}; for {op} of {config.dtype} over {num_ranks} ranks "
            f"give a multiple of {unit}"
        )


def checked(exchange: Exchange, what: str) -> Callable[[], object]:
    """The call, made once and found right. Raises RuntimeError, which says what, where it is not.

    Then the ranks put in zeros, as sums of sums would grow beyond all bounds.
    """
    exchange.call()
    if not torch.equal(exchange.result, exchange.expected):
        wrong = int((exchange.result != exchange.expected).nonzero()[0])
        got, expected = exchange.result[wrong].item(), exchange.expected[wrong].item()
        raise RuntimeError(f"{what} is wrong: {got:g} instead of {expected:g} at place {wrong}")
    exchange.given.zero_()
    return exchange.call


def meeting(dist: Dist) -> Callable[[], object]:
    """Brings all ranks of the job together. On a GPU it is their queues that meet: no host waits.

    That is why it is not `barrier`, for which hosts wait.
    """
    token = torch.zeros(1, device=dist.device)
    return partial(c10d.all_reduce, token)


def steps(
    calls: Mapping[int, Callable[[], object]],
    rates: Callable[[int, Later], Facts],
    repeats: int,
    watch: Stopwatch,
    meet: Callable[[], object],
) -> Iterator[Facts]:
    """Steps: each times every size, and notes its rates."""
    while True:
        facts: dict[str, Later] = {}
        for size, call in calls.items():
            meet()
            facts |= rates(size, watch.mean(call, repeats))
        yield facts


def rates_of(op: str, num_ranks: int, size: int, took: Later) -> dict[str, Later]:
    """What there is to note of one size."""
    return {
        f"collective_time_s@{size}": took,
        f"algbw_bytes_per_s@{size}": took.then(partial(algbw_bytes_per_s, size)),
        f"busbw_bytes_per_s@{size}": took.then(
            lambda time_s: busbw_bytes_per_s(op, size, time_s, num_ranks)
        ),
    }
