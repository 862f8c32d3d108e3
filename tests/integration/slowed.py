"""training.ddp with one thing wrong in every step: what a diagnosis must name.

Started by test_causes.py under torchrun. One launch profiles all the sides, one after the other,
each into a folder of its own name.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.distributed as c10d
from torch.utils.data import DataLoader

from workloads.dist import Dist, process_group
from workloads.harness import Facts, drive
from workloads.profiling import make_plan
from workloads.records import Records
from workloads.training import ddp

NUM_MATMULS = 10
SLEEP_S = 0.5  # far more than a step takes, even on a busy machine


@dataclass(frozen=True, kw_only=True)
class Config(ddp.Config):
    """The workload's options and what is wrong."""

    wrong: Annotated[str, "one of SIDES"] = "nothing"


class SlowLoader:
    """Samples that each take a while to read."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> int:
        time.sleep(SLEEP_S)
        return index


def matmuls(_dist: Dist) -> Callable[[], Any]:
    square = torch.ones(768, 768)
    return lambda: [square @ square for _ in range(NUM_MATMULS)]


def all_reduce(_dist: Dist) -> Callable[[], Any]:
    numbers = torch.ones(2**25)
    return lambda: c10d.all_reduce(numbers)


def sleeping_rank(dist: Dist) -> Callable[[], Any]:
    return lambda: time.sleep(SLEEP_S if dist.rank == 0 else 0.0)


def slow_loader(_dist: Dist) -> Callable[[], Any]:
    batches = iter(DataLoader(SlowLoader()))
    return lambda: next(batches)


def host_stall(_dist: Dist) -> Callable[[], Any]:
    return lambda: time.sleep(SLEEP_S)


def nothing(_dist: Dist) -> Callable[[], Any]:
    return lambda: None


SIDES = {
    side.__name__: side
    for side in (nothing, matmuls, all_reduce, sleeping_rank, slow_loader, host_stall)
}


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """The workload's steps, each behind what is wrong."""
    return _slowed(ddp.run(config, dist), SIDES[config.wrong](dist))


def _slowed(steps: Iterator[Facts], wrong: Callable[[], Any]) -> Iterator[Facts]:
    while True:
        wrong()
        yield next(steps)


if __name__ == "__main__":
    workload: Any = sys.modules[__name__]
    plan = make_plan(num_profiled=3, num_warmup=3, num_steps=6)
    with process_group() as dist:
        for side in SIDES:
            config = Config(model="debug", seq_len=32, batch_size=2, steps=6, wrong=side)
            with Records(str(Path(sys.argv[1]) / side)) as records:
                drive(workload, config, dist, records, plan)
