"""`make gpu-check`: on one GPU, is what we measure physically possible? Under four minutes.

Runs the training workload on NCCL at world size 1, alone and in lock-step with itself, and holds
the figures against physics: 0 < MFU < 1, peak memory within the card's, time by CUDA events close
to the wall clock, an equal candidate without a shift.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks._bench import make_bench
from runners.bench import Bench
from runners.lockstep import measure_lockstep
from runners.pair import measure_solo
from service.domain import Case, Role
from service.stats.pairs import STEP_TIME
from service.usecases.recording import TrialResult
from workloads.flops import mfu, peak_flops_per_s

ARGUMENTS = ("--model", "medium", "--seq-len", "1024", "--steps", "150", "--precision", "bfloat16")


@dataclass(frozen=True)
class Check:
    """A figure, its bounds and whether it lies within them."""

    name: str
    value: float | None
    low: float
    high: float

    @property
    def is_right(self) -> bool:
        return self.value is not None and self.low < self.value < self.high


def main() -> int:
    """Run, print the table; the exit code is the number of figures that cannot be."""
    if not torch.cuda.is_available():
        print("gpu-check needs a CUDA device and a CUDA build of torch; there is none here.")
        return 2
    start = time.monotonic()
    checks = [*solo_checks(), *pair_checks()]
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for check in checks:
        value = "unknown" if check.value is None else f"{check.value:.4g}"
        word = "ok" if check.is_right else "WRONG"
        print(f"{check.name:36s}{value:>14s}   in ({check.low:.4g}, {check.high:.4g})   {word}")
    print(f"{time.monotonic() - start:.0f} s")
    return sum(not check.is_right for check in checks)


def solo_checks() -> list[Check]:
    """A trial alone: time, throughput, memory, MFU."""
    with tempfile.TemporaryDirectory() as folder:
        trial = _valid(measure_solo(_bench(folder), _case(), Role.BASELINE))
        steps = _steps(Path(folder), trial)
    times = trial.steady[STEP_TIME]
    model_flops = sum(step["model_flops"] for step in steps[trial.num_warmup_steps :])
    peak = peak_flops_per_s(torch.cuda.get_device_name(), "bfloat16")
    wall_s = steps[-1]["at"] - steps[0]["at"]
    return [
        Check("step time, s", float(times.mean()), 0.0, 10.0),
        Check("MFU", mfu(model_flops / float(times.sum()), peak), 0.0, 1.0),
        Check(
            "peak allocated, share of the card",
            float(trial.samples["peak_allocated_bytes"][0])
            / torch.cuda.get_device_properties(0).total_memory,
            0.0,
            1.0,
        ),
        Check(
            "event time over wall clock",
            float(trial.samples["step_time_s"].sum()) / wall_s if wall_s else None,
            0.5,
            2.0,
        ),
    ]


def pair_checks() -> list[Check]:
    """A pair in lock-step with itself on the one GPU."""
    with tempfile.TemporaryDirectory() as folder:
        pair = measure_lockstep(_bench(folder), _case(), Role.BASELINE, seed=1)
    for role in Role:
        _valid(pair.trials[role])
    return [Check("lock-step with itself, d", pair.effects[STEP_TIME], -0.02, 0.02)]


def _valid(trial: TrialResult) -> TrialResult:
    if trial.failure is not None:
        raise SystemExit(f"{trial.role}: {trial.failure.reason}: {trial.failure.detail}")
    return trial


def _steps(store: Path, trial: TrialResult) -> list[dict[str, float]]:
    """Rank 0's step records."""
    path = next(store.rglob(f"{trial.trial_id}/rank-0.jsonl"))
    records = map(json.loads, path.read_text().splitlines())
    return [record for record in records if record["kind"] == "step"]


def _case() -> Case:
    return Case(name="gpu", workload="training.ddp", arguments=ARGUMENTS, world_size=1)


def _bench(folder: str) -> Bench:
    return make_bench(Path(folder), dict.fromkeys(Role, ()))


if __name__ == "__main__":
    sys.exit(main())
