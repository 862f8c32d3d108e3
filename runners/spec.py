"""What a launcher is told: one trial, ready to start."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from runners.account import OWN, Account

# Everything that a trial or a set-up starts carries both, by which a sweep finds it.
TRIAL_VARIABLE = "PACELINE_TRIAL_ID"
SLOT_VARIABLE = "PACELINE_SLOT_ID"


Check = Callable[[], None]  # raises when what is under way must stop


def slot_tag(slot_id: UUID) -> str:
    """What the processes on a slot carry in their environment."""
    return f"{SLOT_VARIABLE}={slot_id}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long things may take, in seconds."""

    start_s: float  # a trial, to its first step
    stall_s: float  # without a new record for so long a trial has hung; 0: not watched
    kill_grace_s: float


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """One trial. `program` is what torchrun starts, a script or `-m module`, on every rank.

    Where it is not distributed, Python itself starts it, once.
    """

    trial_id: str
    slot_id: UUID
    program: tuple[str, ...]
    world_size: int
    python: Path
    scratch: Path  # its own folder, gone after the trial
    working_dir: Path
    environment: Mapping[str, str]
    log: Path
    records: Path
    deadline_s: float
    limits: Limits
    is_distributed: bool = True
    account: Account = OWN
