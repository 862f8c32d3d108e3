"""training.ddp for real: two gloo ranks under torchrun."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workloads.records import rank_file, read

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
STEPS = 40
OPTIONS = f"--model debug --seq-len 32 --batch-size 2 --learning-rate 5e-3 --steps {STEPS}"


def launch(out: Path) -> list[list[dict[str, Any]]]:
    """Records of both ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "workloads", "training.ddp", *OPTIONS.split()]
    environment = {
        "PACELINE_RECORDS": str(out),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, timeout=200)
    return [list(read(rank_file(out, rank))) for rank in range(2)]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    return launch(tmp_path_factory.mktemp("first"))


def losses(records: list[dict[str, Any]]) -> list[float]:
    return [record["loss"] for record in records if record["kind"] == "step"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_writes_complete_records(ranks: list[list[dict[str, Any]]], rank: int) -> None:
    records = ranks[rank]
    kinds = [record["kind"] for record in records]
    assert kinds == ["env", "env", "phase", "phase", *["step"] * STEPS, "memory", "summary"]
    assert {record["rank"] for record in records} == {rank}
    assert records[0]["world_size"] == 2
    assert records[1]["config"]["seq_len"] == 32
    assert records[2]["name"] == "process_group_init"
    steps = records[4:-2]
    assert [step["step"] for step in steps] == list(range(STEPS))
    assert {step["tokens"] for step in steps} == {64}
    assert all(step["time_s"] > 0 for step in steps)
    assert records[-2]["peak_rss_bytes"] > 100e6
    assert records[-1]["num_steps"] == STEPS


def test_the_loss_falls_on_both_ranks(ranks: list[list[dict[str, Any]]]) -> None:
    for records in ranks:
        values = losses(records)
        assert sum(values[-8:]) / 8 < sum(values[:8]) / 8 - 0.4  # each of the 8 batches once


def test_two_launches_compute_the_same_bits(
    ranks: list[list[dict[str, Any]]], tmp_path: Path
) -> None:
    again = launch(tmp_path)
    assert [losses(records) for records in again] == [losses(records) for records in ranks]
    assert losses(ranks[0]) != losses(ranks[1]), "each rank has its own batches"
