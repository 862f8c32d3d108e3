"""What a launcher is told: one trial, ready to start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What a trial may see of the worker's environment; everything else is the worker's own business.
ALLOWED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
ALLOWED_PREFIXES = ("NCCL_", "GLOO_", "UCX_", "FI_")
TRIAL_VARIABLE = "PACELINE_TRIAL_ID"


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """One trial. `program` is what torchrun starts: a script, or `-m module`."""

    trial_id: str
    program: tuple[str, ...]
    world_size: int
    python: Path
    scratch: Path  # its own folder, gone after the trial
    working_dir: Path
    environment: Mapping[str, str]
    log: Path
    records: Path
    deadline_s: float
    start_s: float  # it may take so long to its first step
    stall_s: float  # without a new record for so long the trial has hung; 0: not watched
    kill_grace_s: float


def trial_environment(
    worker: Mapping[str, str],
    *,
    scratch: Path,
    threads_per_rank: int,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Environment of a trial: what is allowed of the worker's, ours, then the side's overrides."""
    allowed = {
        name: value
        for name, value in worker.items()
        if name in ALLOWED_VARIABLES or name.startswith(ALLOWED_PREFIXES)
    }
    ours = {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": str(threads_per_rank),
    }
    return allowed | ours | dict(overrides)
