"""Ranks the ways to lay a model out over ranks, by what one step then costs each rank.

python -m workloads.static.layouts --world-size 64 --memory-bytes 80e9 --model 8b --seq-len 4096 \
    --batch-size 1 --precision bfloat16

All layouts train on --batch-size times --world-size sequences a step. Blocks are alike, so two
models of few blocks are counted and the rest is a straight line.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

from workloads.__main__ import parser
from workloads.recipe import sizes_of
from workloads.static.signals import costs, processes
from workloads.training import hybrid

_FEW = 4  # blocks: with fewer the peak of memory may lie elsewhere


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes of the mesh that training.hybrid cuts a model over, and what a step costs a rank."""

    replicas: int
    shards: int
    tensor: int
    flops: int
    communicated_bytes: int
    peak_bytes: int


def ranked(config: hybrid.Config, world_size: int, memory_bytes: float) -> list[Layout]:
    """Layouts that fit into the memory first, then by the bytes that a rank communicates.

    Bytes within a node are cheaper than those between nodes; the counts do not tell them apart.
    Raises ValueError where no layout divides.
    """
    sizes = list(sizes_for(config, world_size))
    if not sizes:
        raise ValueError(f"no layout of {config.model} divides {world_size} ranks")
    with processes() as started:
        counting = [(one, _started(started, config, *one)) for one in sizes]
        found = [_layout(sizes_of(config).num_layers, *each) for each in counting]
    return sorted(found, key=lambda one: (one.peak_bytes > memory_bytes, one.communicated_bytes))


def sizes_for(config: hybrid.Config, world_size: int) -> Iterator[tuple[int, int, int]]:
    """Replicas, shards and tensor ranks whose product is the world, and that divide the heads."""
    num_kv_heads = sizes_of(config).num_kv_heads
    for tensor in divisors(world_size):
        if num_kv_heads % tensor == 0:
            for replicas in divisors(world_size // tensor):
                yield replicas, world_size // tensor // replicas, tensor


def divisors(number: int) -> list[int]:
    """Ascending."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


Totals = tuple[int, int, int]  # FLOPs, bytes of all collectives, and of memory at the peak


def _started(
    started: Executor, config: hybrid.Config, replicas: int, shards: int, tensor: int
) -> list[Future[Totals]]:
    """Counts of the model with few blocks and with one more, on their way."""
    laid_out = replace(
        config,
        stages=1,
        replicas=replicas,
        shards=shards,
        tensor=tensor,
        batch_size=config.batch_size * tensor,
    )
    return [
        started.submit(_totals, replace(laid_out, num_layers=number)) for number in (_FEW, _FEW + 1)
    ]


def _totals(config: hybrid.Config) -> Totals:
    found = costs(hybrid, config, config.replicas * config.shards * config.tensor)
    return found.flops, found.collective_bytes.total(), found.peak_bytes


def _layout(
    num_layers: int, sizes: tuple[int, int, int], counting: Sequence[Future[Totals]]
) -> Layout:
    """The layout with all its blocks, on the straight line through both counts."""
    few, more = (count.result() for count in counting)
    flops, communicated_bytes, peak_bytes = (
        a + (num_layers - _FEW) * (b - a) for a, b in zip(few, more, strict=True)
    )
    replicas, shards, tensor = sizes
    return Layout(
        replicas=replicas,
        shards=shards,
        tensor=tensor,
        flops=flops,
        communicated_bytes=communicated_bytes,
        peak_bytes=peak_bytes,
    )


def main(arguments: Sequence[str]) -> int:
    """Rank and print. Returns the exit code: 1 for what cannot be laid out."""
    options = argparse.ArgumentParser(
        prog="python -m workloads.static.layouts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--world-size", type=int, required=True, help="ranks of the job")
    options.add_argument("--memory-bytes", type=float, required=True, help="of one device")
    own, rest = options.parse_known_args(arguments)
    config: Any = hybrid.Config(**vars(parser("training.hybrid", hybrid.Config).parse_args(rest)))
    try:
        found = ranked(config, own.world_size, own.memory_bytes)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("replicas   shards   tensor      TFLOP   GB moved    peak GB")
    for one in found:
        fits = "" if one.peak_bytes <= own.memory_bytes else "  does not fit"
        print(
            f"{one.replicas:>8} {one.shards:>8} {one.tensor:>8} {one.flops / 1e12:>10.2f} "
            f"{one.communicated_bytes / 1e9:>10.2f} {one.peak_bytes / 1e9:>10.2f}{fits}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
