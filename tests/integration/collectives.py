"""Run under torchrun: communication workloads as they are, and with their operation broken.

torchrun ... tests/integration/collectives.py "all_reduce --dtype float16" "reduce --break idle"

Prints a JSON object by mode: what the ranks noted in their first step, or the first error of one.
Broken operations do nothing (`idle`), get one number wrong (`last`) or put all in the wrong place
(`roll`). A check that does not notice notices nothing.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch.distributed as c10d

from workloads.__main__ import parser
from workloads.collectives import Exchange
from workloads.dist import Dist, process_group

SPOILS: dict[str, Callable[[Any], object]] = {
    "last": lambda result: result[-1:].add_(1),
    "roll": lambda result: result.copy_(result.roll(1)),
}


def main() -> None:
    with process_group() as dist:
        nodes = replace(dist, local_world_size=2)  # four ranks are two nodes
        found = {mode: outcome(nodes, *mode.split()) for mode in sys.argv[1:]}
        if dist.rank == 0:
            print(json.dumps(found))


def outcome(dist: Dist, name: str, *options: str) -> Any:
    """What a mode noted, by metric the value of each rank; or how it failed."""
    workload = import_module(f"workloads.comm.{name}")
    known, _, broken = " ".join(options).partition("--break")
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(known.split())))
    if broken:
        with BREAKS.get(name, broken_exchange)(workload, broken.strip(), dist):
            mine = failure(workload, config, dist)
        return next((error for error in gathered(mine, dist) if error), None)
    every = gathered(first_step(workload, config, dist), dist)
    return {name: [noted[name] for noted in every] for name in every[0]}


def gathered(mine: Any, dist: Dist) -> list[Any]:
    every: list[Any] = [None] * dist.world_size
    c10d.all_gather_object(every, mine)
    return every


def first_step(workload: Any, config: Any, dist: Dist) -> dict[str, float]:
    return {name: value.item() for name, value in next(workload.run(config, dist)).items()}


def failure(workload: Any, config: Any, dist: Dist) -> str | None:
    """What set-up said; no rank goes on to the steps."""
    try:
        workload.run(config, dist)
    except RuntimeError as error:
        return str(error)
    return None


@contextmanager
def broken_exchange(workload: Any, how: str, _dist: Dist) -> Iterator[None]:
    right = workload.prepare
    with patch.object(workload, "prepare", lambda *given: spoilt(right(*given), how)):
        yield


def spoilt(exchange: Exchange, how: str) -> Exchange:
    if how == "idle":
        return replace(exchange, call=lambda: None)

    def call() -> None:
        exchange.call()
        SPOILS[how](exchange.result)

    return replace(exchange, call=call)


@contextmanager
def broken_overlap(workload: Any, _how: str, _dist: Dist) -> Iterator[None]:
    with patch.object(workload, "at_once", lambda compute, communicate: compute()):
        yield


@contextmanager
def broken_barrier(_workload: Any, _how: str, dist: Dist) -> Iterator[None]:
    """It does nothing, and the last rank comes when the others have left."""
    wait = c10d.barrier
    is_last = dist.rank == dist.world_size - 1
    if is_last:
        wait()
    with patch.object(c10d, "barrier", lambda *given, **options: None):
        yield
    if not is_last:
        wait()


BREAKS = {"overlap": broken_overlap, "barrier": broken_barrier}

if __name__ == "__main__":
    main()
