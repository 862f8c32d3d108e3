"""What is counted of a fake world is what ranks do that really communicate."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.integration.signalled import SCHEDULES, SIZES
from workloads.static.signals import costs_of
from workloads.static.stages import ranks_of
from workloads.training import fsdp, hybrid, pipeline, tensor_parallel

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("workload", "world_size", "options"),
    [
        (fsdp, 2, {}),
        (tensor_parallel, 2, {}),
        *((pipeline, 2, {"batch_size": 8, "schedule": schedule}) for schedule in SCHEDULES),
        (hybrid, 4, {"batch_size": 8, "shards": 2, "tensor": 1, "precision": "bfloat16"}),
        (hybrid, 4, {"batch_size": 8, "shards": 1, "schedule": "ZBVZeroBubble"}),
    ],
)
def test_a_step_that_really_communicates_counts_the_same(
    workload: Any, world_size: int, options: dict[str, Any]
) -> None:
    config = workload.Config(**{"num_layers": 4, **SIZES, **options})
    given = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(config).items()]
    given = [option for option in given if not option.endswith(("=True", "=False"))]
    by_rank = really_counted(workload, world_size, given)
    found = costs_of(workload, config, world_size, ranks_of(config, world_size))
    for rank, cost in found.items():
        assert by_rank[rank] == [cost.flops, cost.num_collectives, cost.collective_bytes]


def really_counted(workload: Any, world_size: int, options: list[str]) -> list[Any]:
    """FLOPs, collectives and their bytes of each rank, from processes that communicate."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={world_size}", "tests/integration/really_counted.py"]
    command += [workload.__name__.rpartition(".")[2], *options]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    assert b"mismatch" not in ended.stderr, "stages pass on what they were told to"
    found: list[Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
