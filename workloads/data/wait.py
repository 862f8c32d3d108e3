"""Training on batches from files, and how long each step waits for its own.

B batch, T sequence, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from torch import Tensor

from workloads.dist import Dist, Stopwatch
from workloads.harness import Facts
from workloads.loading import Loading, random_windows
from workloads.recipe import Recipe, Training, sizes_of
from workloads.training import ddp, single


@dataclass(frozen=True, kw_only=True)
class Config(Recipe, Loading):
    """The command line."""


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError for files that are not such a corpus."""
    mode = ddp if dist.world_size > 1 else single
    with ExitStack() as stack:
        windows_BT = random_windows(config, sizes_of(config).vocab_size, dist, stack)
        training = Training(config, dist, mode.parallelize)
        return steps(training, windows_BT, Stopwatch(dist.device), stack.pop_all())


def steps(
    training: Training, windows_BT: Iterator[Tensor], watch: Stopwatch, corpus: ExitStack
) -> Iterator[Facts]:
    """The loop. On a GPU a wait that its earlier work covers takes no time, and counts as none."""
    with corpus:
        while True:
            start = watch.mark()
            window_BT = next(windows_BT)
            data_wait_s = watch.since(start)
            yield {**training.step(window_BT), "data_wait_s": data_wait_s}
