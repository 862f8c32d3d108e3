"""What does being measured cost? Harness and turn overhead in µs per step, against a real step.

`inside` is what a step's time holds beyond the step: an empty step, timed. `outside` is what a
free-running step costs besides its timed part: records. `switch` is what a lock-step turn costs
besides its timed part: it makes a pair longer, not a step.
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from runners import turnserver
from service.domain import Role
from workloads.dist import process_group
from workloads.records import Records
from workloads.training import ddp
from workloads.turns import SOCKET_VARIABLE, Turns

STEPS = 2000
WORK_S = 2e-3  # above the millisecond below which turns get longer


class Times:
    """Keeps step times."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def step(self, index: int, time_s: float, **fields: object) -> None:
        """One finished step."""
        self.seconds.append(time_s)


def main() -> None:
    """Measure and print."""
    step_s = real_step_s()
    inside_s = inside()
    outside_s = outside()
    switch_s = switch()
    print(f"a real step (training.ddp, model small, one rank): {step_s * 1e3:.2f} ms")
    print("                µs per step   of the step")
    for name, value in (("inside", inside_s), ("outside", outside_s), ("switch", switch_s)):
        print(f"{name:12s}{value * 1e6:15.1f}{value / step_s:13.3%}")


def real_step_s() -> float:
    """Median step time of a small training."""
    torch.set_num_threads(1)
    times = Times()
    with process_group() as dist:
        turns, steps = Turns(60, times), ddp.run(ddp.Config(), dist)
        while turns.step():
            next(steps)
    return statistics.median(times.seconds[10:])


def inside() -> float:
    """Median time of an empty step."""
    times = Times()
    turns = Turns(STEPS, times)
    while turns.step():
        turns.note(tokens=1, loss=1.0)
    return statistics.median(times.seconds)


def outside() -> float:
    """Wall clock per step of an empty free-running loop with records, less its timed part."""
    with tempfile.TemporaryDirectory() as folder, Records(folder, 0) as records:
        times = Times()
        wall_s = _wall(lambda: _loop(Turns(STEPS, _Both(records, times))))
    return wall_s / STEPS - statistics.mean(times.seconds)


class _Both:
    def __init__(self, *sinks: Records | Times) -> None:
        self._sinks = sinks

    def step(self, index: int, time_s: float, **fields: object) -> None:
        for sink in self._sinks:
            sink.step(index, time_s, **fields)


def switch() -> float:
    """Wall clock per turn of a lock-step pair of one rank a side, less its timed part."""
    rounds = 300
    with tempfile.TemporaryDirectory() as folder:
        order = turnserver.Order(
            sockets={role.value: f"{folder}/{role}" for role in Role},
            world_size=1,
            num_warmup_turns=10,
            min_turns=rounds,
            max_standard_error=float("inf"),
            time_limit_s=60,
            start_limit_s=10,
            stall_s=10,
            seed=1,
        )
        lifeline, _keep = os.pipe()
        server = threading.Thread(
            target=turnserver.serve, args=(order,), kwargs={"lifeline": lifeline}
        )
        server.start()
        times = Times()
        while not all(Path(path).exists() for path in order.sockets.values()):
            time.sleep(0.01)
        sides = []
        for path in order.sockets.values():
            os.environ[SOCKET_VARIABLE] = path
            sides.append(threading.Thread(target=_loop, args=(Turns(10**6, times), WORK_S)))
        del os.environ[SOCKET_VARIABLE]
        wall_s = _wall(lambda: _join(sides))
        server.join()
    return wall_s / len(times.seconds) - statistics.mean(times.seconds)


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _loop(turns: Turns, work_s: float = 0.0) -> None:
    while turns.step():
        turns.note(tokens=1, loss=1.0)
        if work_s:
            time.sleep(work_s)


def _wall(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
