"""Ranks end their process groups whole: a thread that outlives the interpreter may abort it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
OPTIONS = ["--model=debug", "--seq-len=32", "--batch-size=8", "--steps=2"]


@pytest.mark.parametrize(
    "workload",
    [
        ["training.fsdp"],
        ["training.tensor_parallel"],
        ["training.hybrid", "--stages=1", "--shards=2", "--tensor=1"],
        ["data.checkpoint"],
    ],
    ids=lambda workload: workload[0],
)
def test_no_thread_of_a_process_group_is_left(workload: list[str]) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["tests/integration/ended.py", *workload, *OPTIONS]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert re.findall(r"(\d+) threads are left", ended.stdout) == ["0", "0"], ended.stdout
