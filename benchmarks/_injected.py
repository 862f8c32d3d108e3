"""A real two-rank training with a slowdown of known size: training.ddp plus work in each step.

Started by benchmarks/arrangements.py under torchrun. The extra work lasts a share of the step it
follows, so a share of 0.05 is a slowdown of exactly 5 % whatever the machine does meanwhile.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from workloads.__main__ import parser
from workloads.dist import Dist
from workloads.harness import Facts, measure
from workloads.training import ddp


@dataclass(frozen=True, kw_only=True)
class Config(ddp.Config):
    """The workload's options and the injected slowdown."""

    slow_by: Annotated[float, "share of a step's time to add to it"] = 0.0


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """The workload's steps, each followed by its extra work."""
    return _slowed(ddp.run(config, dist), config.slow_by)


def _slowed(steps: Iterator[Facts], share: float) -> Iterator[Facts]:
    left, right, out = torch.randn(32, 32), torch.randn(32, 32), torch.empty(32, 32)
    while True:
        start = time.perf_counter()
        step = next(steps)
        end = time.perf_counter() + share * (time.perf_counter() - start)
        while time.perf_counter() < end:
            torch.mm(left, right, out=out)
        yield step


if __name__ == "__main__":
    workload: Any = sys.modules[__name__]
    measure(workload, Config(**vars(parser("injected", Config).parse_args())))
