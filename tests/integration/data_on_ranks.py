"""Run under torchrun: what each rank reads, and what a checkpoint brings back.

torchrun ... tests/integration/data_on_ranks.py "memmap --workers 1" "memmap --break" ...

Prints a JSON object by mode. Of a loader: how many windows are not of the corpus, and how many are
read by more than one rank; with `--break` all ranks take themselves for the first.
"""

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from itertools import islice
from typing import Any

import torch.distributed as c10d

from workloads.__main__ import parser
from workloads.corpus import tokens_at
from workloads.dist import Dist, process_group
from workloads.loading import document_windows, num_own_tokens, random_windows

LOADERS = {"memmap": random_windows, "tar": document_windows}
NUM_BATCHES = 6  # within the first file of each reader


def main() -> None:
    with process_group() as dist:
        found = {mode: examine(dist, *mode.split()) for mode in sys.argv[1:]}
        if dist.rank == 0:
            print(json.dumps(found))


def examine(dist: Dist, name: str, *options: str) -> Any:
    """What there is to tell of a mode, on rank 0."""
    workload = import_module(f"workloads.data.{name}")
    known = [option for option in options if option != "--break"]
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(known)))
    return reading(name, config, dist, is_broken="--break" in options)


def reading(name: str, config: Any, dist: Dist, *, is_broken: bool) -> dict[str, int]:
    """Windows that are not of the corpus, and those that several ranks read."""
    reader = replace(dist, rank=0) if is_broken else dist
    with ExitStack() as stack:
        batches_BT = LOADERS[name](config, config.vocab_size, reader, stack)
        read = [tuple(row) for batch in islice(batches_BT, NUM_BATCHES) for row in batch.tolist()]
    of_ranks: list[Any] = [None] * dist.world_size
    c10d.all_gather_object(of_ranks, set(read))
    corpus = tokens_at(0, num_own_tokens(config, dist), config.vocab_size)
    known = set(map(tuple, corpus.unfold(0, config.seq_len + 1, 1).tolist()))
    return {
        "read": len(read),
        "foreign": sum(len(windows - known) for windows in of_ranks),
        "shared": len(set.intersection(*of_ranks)),
    }


if __name__ == "__main__":
    main()
