"""Every collective leaves the right result on gloo, and a wrong one is noticed."""

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
SIZES = "--min-bytes 1024 --max-bytes 16384 --factor 16 --repeats 2"
ONE_SIZE = "--min-bytes 1024 --max-bytes 1024"  # ranks that notice nothing wait for no other
OPERATIONS = [
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all --parts uneven"),
    *("broadcast", "reduce", "gather", "scatter", "send_recv"),
]
DTYPES = ["float32", "bfloat16", "float16"]
SWEEPS = [f"{op} --dtype {dtype} {SIZES}" for op in OPERATIONS for dtype in DTYPES]
GROUPED = [f"{op} --group across {SIZES}" for op in OPERATIONS]
GROUPED += [f"all_reduce --group node {SIZES}"]
OTHERS = ["barrier", "overlap --message-bytes 65536 --matrix-size 64"]
MODES = {2: [*SWEEPS, *OTHERS], 4: [*SWEEPS, *GROUPED, *OTHERS, "barrier --group across"]}
BROKEN = [
    *(f"{op} {ONE_SIZE} --break {how}" for op in OPERATIONS for how in ("idle", "last", "roll")),
    *(f"{other} --break idle" for other in OTHERS),
]
BUS_FACTORS = {  # of two ranks, of four
    "all_reduce": (1.0, 1.5),
    **dict.fromkeys(("broadcast", "reduce", "send_recv"), (1.0, 1.0)),
    **dict.fromkeys(
        ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"), (0.5, 0.75)
    ),
}


@cache
def found(world_size: int) -> dict[str, Any]:
    """What each mode noted or said: one launch."""
    modes = MODES[world_size] + BROKEN
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={world_size}", "tests/integration/collectives.py", *modes]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, timeout=120
    ).stdout
    outcomes: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return outcomes


@pytest.mark.parametrize(
    ("world_size", "mode"), [(n, mode) for n in MODES for mode in MODES[n] if SIZES in mode]
)
def test_every_size_is_right_and_has_its_rates(world_size: int, mode: str) -> None:
    noted = found(world_size)[mode]
    num_ranks = 2 if "--group" in mode else world_size
    factor = BUS_FACTORS[mode.split()[0]][num_ranks // 4]
    assert len(noted) == 6
    for size in (1024, 16384):
        for rank in range(world_size):
            time_s = noted[f"collective_time_s@{size}"][rank]
            assert time_s > 0
            assert noted[f"algbw_bytes_per_s@{size}"][rank] * time_s == pytest.approx(size)
            assert noted[f"busbw_bytes_per_s@{size}"][rank] * time_s == pytest.approx(size * factor)


@pytest.mark.parametrize("world_size", MODES)
def test_a_barrier_notes_its_time_alone(world_size: int) -> None:
    for mode in MODES[world_size]:
        if mode.startswith("barrier"):
            noted = found(world_size)[mode]
            assert list(noted) == ["barrier_time_s"]
            assert all(time_s > 0 for time_s in noted["barrier_time_s"])


@pytest.mark.parametrize("world_size", MODES)
def test_overlap_notes_three_times_and_their_ratio(world_size: int) -> None:
    noted = found(world_size)[OTHERS[1]]
    ranks = zip(*noted.values(), strict=True)
    assert list(noted) == [
        *("compute_time_s", "communication_time_s", "overlapped_time_s"),
        "overlap_ratio",
    ]
    for compute_s, communication_s, overlapped_s, ratio in ranks:
        hidden_s = compute_s + communication_s - overlapped_s
        assert ratio * min(compute_s, communication_s) == pytest.approx(hidden_s)


@pytest.mark.parametrize(("world_size", "mode"), [(n, mode) for n in MODES for mode in BROKEN])
def test_a_wrong_result_is_noticed_by_name(world_size: int, mode: str) -> None:
    said = found(world_size)[mode]
    op = mode.split()[0]
    assert said.startswith("rank ")
    assert ("all_reduce" if op == "overlap" else op) in said
    assert "wrong" in said
    if ONE_SIZE in mode:
        assert "of 1024 bytes" in said
