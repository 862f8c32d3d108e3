"""What it takes the host to launch an operator that has next to nothing to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.sweep import Repeats, Steps, at_least


@dataclass(frozen=True, kw_only=True)
class Config:
    """The command line."""

    repeats: Repeats = 200  # below 1024 launches, where a GPU's queue would be full
    steps: Steps = 100

    def __post_init__(self) -> None:
        at_least(1, repeats=self.repeats)


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. The host's clock tells the time on a GPU, too."""
    x = torch.zeros(1, device=dist.device)
    return steps(partial(x.add_, 1), config.repeats, Stopwatch(torch.device("cpu")))


def steps(launch: Callable[[], object], repeats: int, watch: Stopwatch) -> Iterator[Facts]:
    """Steps: each is so many launches."""
    while True:
        yield {"launch_time_s": watch.mean(launch, repeats)}
