"""Reading alone: documents streamed from tar files and packed into windows."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

from workloads.dist import Dist
from workloads.harness import Facts
from workloads.loading import Loading, document_windows, read


@dataclass(frozen=True, kw_only=True)
class Config(Loading):
    """The command line."""

    vocab_size: Annotated[int, "tokens are below it"] = 32_000


def run(config: Config, dist: Dist) -> Iterator[Facts]:
    """Set up and return the steps. Raises ValueError for files that are not such a corpus."""
    with ExitStack() as stack:
        windows_BT = document_windows(config, config.vocab_size, dist, stack)
        return read(windows_BT, config, stack.pop_all())
