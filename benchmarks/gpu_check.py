"""`make gpu-check`: on one GPU, is what we measure physically possible? Under four minutes.

Runs the workloads of a single GPU, and training on NCCL at world size 1: each alone, DDP in
lock-step with itself, too. Holds the figures against physics: 0 < MFU < 1, matrix products below
the card's peak and above 1 % of it, copies below the bandwidth of its memory, peak memory within
it, time by CUDA events close to the wall clock, an equal candidate without a shift.

Collectives are not in it: comm.* refuses a rank that has nobody to communicate with.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._bench import make_bench
from benchmarks._physics import Card, Check, Figures, checks_of
from runners.bench import Bench
from runners.lockstep import measure_lockstep
from runners.pair import measure_solo
from service.domain import Case, Role
from service.stats.pairs import STEP_TIME
from service.usecases.recording import TrialResult

TRAINING = "--model=medium --seq-len=1024 --steps=150 --precision=bfloat16"
# Sizes past the card's caches, and long enough for launches not to count.
WORKLOADS = {
    "training.single": TRAINING,
    "training.ddp": TRAINING,
    "training.fsdp": TRAINING,
    "micro.gemm": "--shapes=4096x4096x4096,8192x8192x8192 --dtype=bfloat16",
    "micro.attention": "--seq-lens=4096 --batch-size=4 --num-heads=16 --head-dim=128 "
    "--dtype=bfloat16",
    "micro.copy": "--direction=device_to_device --min-bytes=1073741824 --max-bytes=1073741824",
    "micro.launch": "",
}


def main() -> int:
    """Run, print the table; the exit code is the number of figures that cannot be."""
    if not torch.cuda.is_available():
        print("gpu-check needs a CUDA device and a CUDA build of torch; there is none here.")
        return 2
    start = time.monotonic()
    memory_bytes = torch.cuda.get_device_properties(0).total_memory
    card = Card(name=torch.cuda.get_device_name(), memory_bytes=memory_bytes)
    print(f"{card.name}, torch {torch.__version__}")
    checks = []
    for check in (*solo_checks(card), *pair_checks()):
        checks.append(check)
        print(row(check), flush=True)
    print(f"comm.*: not run, they need two ranks\n{time.monotonic() - start:.0f} s")
    return sum(not check.is_right for check in checks)


def row(check: Check) -> str:
    """A line of the table."""
    value = "unknown" if check.value is None else f"{check.value:.4g}"
    word = "ok" if check.is_right else "WRONG"
    return f"{check.name:56s}{value:>12s}   in ({check.low:.4g}, {check.high:.4g})   {word}"


def solo_checks(card: Card) -> Iterator[Check]:
    """Each workload alone on the card."""
    for workload in WORKLOADS:
        yield from checks_of(workload, solo(workload), card)


def solo(workload: str) -> Figures:
    """Figures of one trial alone."""
    with tempfile.TemporaryDirectory() as folder:
        trial = _valid(measure_solo(_bench(folder), _case(workload), Role.BASELINE))
        return figures_of(trial, _records(Path(folder), trial))


def figures_of(trial: TrialResult, records: Sequence[dict[str, Any]]) -> Figures:
    """Figures of a trial and rank 0's records. Steps begin where the set-up is recorded."""
    steps = [record for record in records if record["kind"] == "step"]
    start = next(record["at"] for record in records if record.get("name") == "setup")
    flops = [step.get("model_flops", 0) for step in steps[trial.num_warmup_steps :]]
    rate = sum(flops) / float(trial.steady[STEP_TIME].sum())
    return Figures(
        medians={name: float(np.median(values)) for name, values in trial.steady.items()},
        event_time_s=float(trial.samples[STEP_TIME].sum()),
        wall_time_s=steps[-1]["at"] - start,
        model_flops_per_s=rate or None,
    )


def pair_checks() -> Iterator[Check]:
    """A pair in lock-step with itself on the one GPU."""
    with tempfile.TemporaryDirectory() as folder:
        case = _case("training.ddp")
        pair = measure_lockstep(_bench(folder), case, Role.BASELINE, seed=1)
    for role in Role:
        _valid(pair.trials[role])
    yield Check("training.ddp: in lock-step with itself, d", pair.effects[STEP_TIME], -0.02, 0.02)


def _valid(trial: TrialResult) -> TrialResult:
    if trial.failure is not None:
        raise SystemExit(f"{trial.role}: {trial.failure.reason}: {trial.failure.detail}")
    return trial


def _records(store: Path, trial: TrialResult) -> list[dict[str, Any]]:
    """Rank 0's records."""
    path = next(store.rglob(f"{trial.trial_id}/rank-0.jsonl"))
    return list(map(json.loads, path.read_text().splitlines()))


def _case(workload: str) -> Case:
    arguments = tuple(WORKLOADS[workload].split())
    return Case(name="gpu", workload=workload, arguments=arguments, world_size=1)


def _bench(folder: str) -> Bench:
    return make_bench(Path(folder), dict.fromkeys(Role, ()))


if __name__ == "__main__":
    sys.exit(main())
