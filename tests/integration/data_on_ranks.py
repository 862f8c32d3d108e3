"""Run under torchrun: what each rank reads, and what a checkpoint brings back.

torchrun ... tests/integration/data_on_ranks.py "memmap --workers 1" "memmap --break" ...

Prints a JSON object by mode. Of a loader: how many windows are not of the corpus, and how many are
read by more than one rank; with `--break` all ranks take themselves for the first. Of checkpoints:
the losses of some steps and how many checkpoints lay there after each; with `--break HOW` every
load finds its rank's file damaged, does nothing or changes the batch, and what the failure said.
"""

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partialmethod
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch.distributed as c10d
from torch.distributed.checkpoint.api import CheckpointException

from workloads.__main__ import parser
from workloads.corpus import tokens_at
from workloads.data.checkpoint import Checkpoints, Saved, run
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
    if name == "checkpoint" and "--break" in options:
        *options, _, how = options
        with patch.object(Checkpoints, "load", partialmethod(broken_load, how, Checkpoints.load)):
            return examine(dist, name, *options)
    workload = import_module(f"workloads.data.{name}")
    known = [option for option in options if option != "--break"]
    config = workload.Config(**vars(parser(name, workload.Config).parse_args(known)))
    if name == "checkpoint":
        return checkpointing(config, dist)
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


def checkpointing(config: Any, dist: Dist) -> dict[str, Any]:
    """Losses of three steps, and the checkpoints that lay there meanwhile and afterwards."""
    folders = [TemporaryDirectory() if dist.rank == 0 else None]
    names = [folders[0].name if folders[0] else ""]
    c10d.broadcast_object_list(names)
    try:
        steps = run(replace(config, path=names[0]), dist)
    except (RuntimeError, CheckpointException) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    facts, num_checkpoints = [], []
    for _ in range(3):
        facts.append(next(steps))
        num_checkpoints.append(num_files(names[0], "*/*"))
    del steps
    c10d.barrier()
    return {
        "losses": [fact["loss"].item() for fact in facts],
        "metrics": sorted(facts[0]),
        "num_checkpoints": num_checkpoints,
        "num_left": num_files(names[0], "*"),
    }


def num_files(folder: str, pattern: str) -> int:
    """How many lie there, before any rank goes on."""
    count = len(list(Path(folder).glob(pattern)))
    c10d.barrier()
    return count


def broken_load(self: Checkpoints, how: str, load: Any, training: Saved, number: int) -> None:
    """A load that is broken, or finds this rank's file with one bit flipped, cut or gone."""
    file = self.place(number) / f"__{c10d.get_rank()}_0.distcp"
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "gone":
        file.unlink()
    if how != "skip":
        load(self, training, number)
    if how == "batch":
        training.window_BT = training.window_BT.roll(1, dims=1)


if __name__ == "__main__":
    main()
