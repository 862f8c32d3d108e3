"""Two gloo ranks are profiled with one thing wrong at a time, and each is named as the cause."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runners.parsers import kineto
from service.stats.breakdown import Breakdown, breakdown
from service.stats.cause import cause
from service.stats.difference import Difference, Row, difference
from workloads.records import trace_file

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
CAUSES = {
    "matmuls": r"^aten::mm \[768x768, 768x768\]: 10 more calls a step, \+",
    "all_reduce": r"^gloo:all_reduce: 1 more call a step, \+",
    "sleeping_rank": r"^rank 1 waits .* more a step in gloo:.*: rank 0 is the straggler \(host:",
    "slow_loader": r"^waiting for data: \+",
    "host_stall": r"^host: idle while nothing recorded runs",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of every side, of one launch."""
    folder = tmp_path_factory.mktemp("sides")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["tests/integration/slowed.py", str(folder)]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, timeout=280)
    return folder


def side(folder: Path) -> list[Breakdown]:
    return [breakdown(kineto.read(trace_file(folder, rank))) for rank in range(2)]


def between(out: Path, name: str) -> Difference:
    return difference(side(out / "nothing"), side(out / name))


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_what_is_wrong_is_named_as_the_cause(out: Path, name: str) -> None:
    sentence = cause(between(out, name))
    assert re.search(CAUSES[name], sentence), sentence


def test_calls_are_counted_exactly(out: Path) -> None:
    for rank in between(out, "matmuls").ranks:
        changed = calls(rank.operators)
        assert changed["aten::mm"] == changed["aten::matmul"] == 10
        assert not any(row.delta_calls for row in rank.parts)
    for rank in between(out, "all_reduce").ranks:
        assert not any(row.delta_calls for row in rank.operators)
        assert calls(rank.parts) == {"gloo:all_reduce": 1, "c10d::allreduce_": 1}


def calls(rows: tuple[Row, ...]) -> dict[str, float]:
    return {row.name: row.delta_calls for row in rows if row.delta_calls}


def test_the_parts_of_a_step_are_its_difference(out: Path) -> None:
    for rank in between(out, "host_stall").ranks:
        assert sum(row.delta_s for row in rank.parts) == pytest.approx(rank.delta_s, abs=1e-9)
