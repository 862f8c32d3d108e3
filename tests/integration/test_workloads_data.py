"""Two ranks read what is theirs, and go on from a checkpoint as before, on gloo."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
LOADERS = ["memmap", "memmap --workers 2", "tar", "tar --workers 2"]
SAME_ON_ALL_RANKS = ["memmap --break", "tar --break"]
CHECKPOINT = "checkpoint --model debug --seq-len 32"
CHECKPOINTS = [CHECKPOINT, f"{CHECKPOINT} --save async --no-fsync"]
DAMAGES = {
    "flip": "RuntimeError: ranks .* loaded other tensors than they had saved",
    "skip": "RuntimeError: ranks .* loaded other tensors than they had saved",
    "batch": r"RuntimeError: training on ranks \[0, 1\] did not go on after a load as before",
    "cut": "CheckpointException",
    "gone": "CheckpointException.*FileNotFoundError",
}


@cache
def found() -> dict[str, Any]:
    """What all modes have to tell: one launch."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["tests/integration/data_on_ranks.py", *LOADERS, *SAME_ON_ALL_RANKS, *CHECKPOINTS]
    command += [f"{CHECKPOINT} --break {damage}" for damage in DAMAGES]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, timeout=280
    ).stdout
    return json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize("mode", LOADERS)
def test_every_rank_reads_the_corpus_and_windows_of_its_own(mode: str) -> None:
    assert found()[mode] == {"read": 24, "foreign": 0, "shared": 0}


@pytest.mark.parametrize("mode", SAME_ON_ALL_RANKS)
def test_the_same_on_all_ranks_would_be_noticed(mode: str) -> None:
    assert found()[mode]["shared"] > 0


@pytest.mark.parametrize("mode", CHECKPOINTS)
def test_training_goes_on_from_a_checkpoint_as_before(mode: str) -> None:
    told = found()[mode]
    assert len(set(told["losses"])) == 1
    assert told["num_checkpoints"] == [1, 1, 1]
    assert told["num_left"] == 0
    assert told["metrics"] == [
        "checkpoint_blocked_s",
        "checkpoint_bytes_per_s",
        "checkpoint_load_s",
        "checkpoint_save_s",
        "loss",
    ]


@pytest.mark.parametrize(("damage", "words"), DAMAGES.items())
def test_a_damaged_checkpoint_would_be_noticed(damage: str, words: str) -> None:
    assert re.search(words, found()[f"{CHECKPOINT} --break {damage}"]["error"], re.DOTALL)
