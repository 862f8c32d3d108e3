"""Two ranks read what is theirs, on gloo."""

import json
import os
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


@cache
def found() -> dict[str, Any]:
    """What all modes have to tell: one launch."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["tests/integration/data_on_ranks.py", *LOADERS, *SAME_ON_ALL_RANKS]
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
