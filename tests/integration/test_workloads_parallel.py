"""Every parallel mode computes what one process computes, on gloo."""

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
OPTIONS = "--seq-len 32 --batch-size 8"
TWO_STAGES_A_RANK = (
    *("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble"),
    *("ZBVZeroBubble", "DualPipeV"),
)
MODES = {
    2: [
        "ddp",
        "ddp --accumulate 2 --checkpointing",
        "fsdp",
        "fsdp --no-reshard",
        "fsdp --accumulate 2 --checkpointing",
        "tensor_parallel",
        "tensor_parallel --no-sequence-parallel --accumulate 2 --checkpointing",
        "tensor_parallel --no-loss-parallel",
        "context_parallel",
        "context_parallel --exchange heads",
        "expert_parallel --model debug-moe",
        "expert_parallel --model debug-moe --accumulate 2 --checkpointing",
        *(f"pipeline --schedule {name}" for name in ("GPipe", "1F1B")),
        *(f"pipeline --model small --schedule {name}" for name in TWO_STAGES_A_RANK),
    ],
    4: [
        "ddp",
        "fsdp",
        "fsdp --replicas 2",
        "context_parallel",
        "pipeline --model small",
        "expert_parallel --model debug-moe",
        "hybrid --stages 1 --replicas 2 --shards 1",
    ],
    8: ["hybrid", "hybrid --replicas 2 --shards 1 --no-sequence-parallel"],
}
# Half a digit of bfloat16 is 0.4 %, of float16 0.05 %.
HALVES = {
    **{f"{mode} --precision bfloat16": 0.02 for mode in ("ddp", "fsdp", "pipeline")},
    **{f"{mode} --precision float16": 0.003 for mode in ("ddp", "fsdp", "pipeline")},
    "tensor_parallel --precision float16": 0.003,
    "context_parallel --precision float16": 0.003,
    # A token between two experts goes to the other one after rounding.
    "expert_parallel --model debug-moe --precision float16": 0.1,
}
BROKEN = [
    *(f"{mode} --break" for mode in ("ddp", "fsdp", "tensor_parallel", "context_parallel")),
    *("pipeline --break", "expert_parallel --model debug-moe --break"),
]


@cache
def apart(world_size: int) -> dict[str, dict[str, float]]:
    """How far losses and gradients of each mode lie from those of one process: one launch."""
    modes = MODES[world_size] + ([*BROKEN, *HALVES] if world_size == 2 else [])
    found = launch("against_single.py", world_size, modes)
    return {mode: found[_whole(mode)] for mode in modes}


def launch(script: str, world_size: int, modes: list[str]) -> dict[str, Any]:
    """What the script prints of these modes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={world_size}", f"tests/integration/{script}"]
    command += [_whole(mode) for mode in modes]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, timeout=280
    ).stdout
    return json.loads(printed.splitlines()[-1])


def _whole(mode: str) -> str:
    model = "" if "--model" in mode else "--model debug "
    return f"{mode} {model}{OPTIONS}"


@pytest.mark.parametrize(("world_size", "mode"), [(n, mode) for n in MODES for mode in MODES[n]])
def test_losses_and_gradients_are_those_of_one_process(world_size: int, mode: str) -> None:
    found = apart(world_size)[mode]
    assert found["loss"] <= 2e-6
    assert found["gradient"] <= 5e-6


@pytest.mark.parametrize("mode", BROKEN)
def test_a_wrong_average_or_norm_would_be_noticed(mode: str) -> None:
    assert apart(2)[mode]["gradient"] > 0.1


@pytest.mark.parametrize("mode", HALVES)
def test_half_precision_is_near(mode: str) -> None:
    assert 1e-5 < apart(2)[mode]["gradient"] <= HALVES[mode]


def test_ranks_draw_only_the_weights_that_they_hold() -> None:
    modes = ["fsdp", "tensor_parallel", "pipeline", "expert_parallel --model debug-moe"]
    modes += ["hybrid --stages 1 --shards 1"]
    found = launch("drawn.py", 2, [*modes, "ddp"])
    assert "init held is for modes that cut" in found.pop(_whole("ddp"))["refused"]
    assert len(found) == len(modes)
    for mode, seen in found.items():
        first, last = seen["losses"]
        assert last < first - 0.01, mode
        assert seen["off"] < 0.1, mode
