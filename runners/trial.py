"""One trial: from how it ended, what it printed and what its ranks recorded to a result."""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runners.guard import Outcome
from runners.launchers import local
from runners.parsers import torchrun
from runners.spec import LaunchSpec
from service.db.base import Samples
from service.domain import FailureReason
from workloads import records

_MEMORY = ("peak_rss_bytes", "peak_allocated_bytes")
# The facts we use, by kind of record, and the least each may be. A step of no time and a process
# of no memory have no logarithm.
_LEAST: dict[str, dict[str, float]] = {
    "step": {"at": 0, "time_s": 1e-9, "tokens": 0},
    "memory": dict.fromkeys(_MEMORY, 1),
    "phase": {"time_s": 0},
}
# As Python prints it at the end of a traceback; torchrun puts `[rank1]:` before it.
_EXCEPTION = re.compile(
    r"^(?P<whose>(?:\[\w+\]:\s*)*)(?P<words>[\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE
)
_UNPRINTABLE = re.compile("[\0-\x08\x0e-\x1f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial has no result."""

    reason: FailureReason
    detail: str
    exit_code: int | None = None


def failure(outcome: Outcome, log: str) -> Failure | None:
    """What a trial's end says; None where it ended well."""
    if outcome.ended == "exited" and outcome.exit_code == 0:
        return None
    if outcome.ended == "not_started":
        return Failure(reason=FailureReason.LAUNCH_FAILED, detail=outcome.detail)
    if outcome.ended == "deadline":
        detail = f"It was still running after {outcome.wall_s:.0f} s (the case's timeout_s)."
        return Failure(reason=FailureReason.DEADLINE, detail=detail)
    if outcome.ended == "stalled":
        return Failure(reason=FailureReason.STALLED, detail="Its ranks recorded nothing any more.")
    if outcome.ended == "released":
        detail = outcome.detail or "It was ended together with the other side."
        return Failure(reason=FailureReason.PEER_FAILED, detail=detail)
    report = torchrun.parse(log)
    code = outcome.exit_code if report.exit_code is None else report.exit_code
    who = "The launcher" if report.rank is None else f"Rank {report.rank}"
    if report.is_out_of_memory:
        return Failure(
            reason=FailureReason.OUT_OF_MEMORY, detail=f"{who} ran out of memory.", exit_code=code
        )
    if code == -9:
        detail = f"{who} was killed by signal 9; on Linux often by the out-of-memory killer."
        return Failure(reason=FailureReason.KILLED, detail=detail, exit_code=code)
    how = (
        f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with {code}"
    )
    words = last_words(log, report.rank)
    if "No module named 'workloads" in words:
        words += " (The project has a `workloads` of its own: vendor turns.py and records.py.)"
    return Failure(
        reason=FailureReason.CRASHED,
        detail=f"{who} {how}. {words}".rstrip(),
        exit_code=code,
    )


def last_words(log: str, rank: int | None) -> str:
    """The exception that the rank's Python printed first, if any.

    torch tells whose words they are once the ranks have met; those of peers follow from its end.
    """
    program = log.partition("torch.distributed.elastic.multiprocessing.errors.ChildFailedError")[0]
    for found in _EXCEPTION.finditer(program):
        if "[rank" not in found["whose"] or rank is None or f"[rank{rank}]" in found["whose"]:
            return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", found["words"][:300])
    return ""


def read_samples(directory: Path, world_size: int) -> dict[str, Samples] | Failure:
    """Metrics of a trial from its ranks' records, or why they are unusable.

    step_time_s has a value per step, the maximum over ranks; tokens_per_step, the sum over ranks,
    is there only if every step told its tokens; every other metric has one value.
    """
    ranks = []
    for rank in range(world_size):
        path = records.rank_file(directory, rank)
        try:
            ranks.append(list(map(_checked, records.read(path))) if path.exists() else [])
        except ValueError as error:
            return Failure(reason=FailureReason.BAD_RECORDS, detail=str(error))
    steps = [[entry for entry in rank if entry["kind"] == "step"] for rank in ranks]
    silent = [rank for rank, own in enumerate(steps) if not own]
    if silent:
        detail = (
            f"Rank {silent[0]} recorded no step. A trainer calls `turns.step()` once per step and "
            "passes its Records to Turns."
        )
        return Failure(reason=FailureReason.NO_STEPS, detail=detail)
    for rank, own in enumerate(steps):
        for entry in own:
            if not math.isfinite(entry.get("loss", 0.0)):
                detail = f"The loss of rank {rank} is {entry['loss']} at step {entry['step']}."
                return Failure(reason=FailureReason.NAN_LOSS, detail=detail)
    return _samples(ranks, steps)


def _checked(entry: dict[str, Any]) -> dict[str, Any]:
    """The record, once what we use of it are numbers that can be compared. Raises ValueError."""
    for name, least in _LEAST.get(entry["kind"], {}).items():
        value = entry.get(name, None if name == "at" else least)
        if not (isinstance(value, int | float) and least <= value < 2**63):
            raise ValueError(f"{name} of a {entry['kind']} record is {str(value)[:80]!r}")
    loss = entry.get("loss", 0.0)
    if not isinstance(loss, float) and not (isinstance(loss, int) and abs(loss) < 2**63):
        raise ValueError(f"the loss of step {entry['step']} is {str(loss)[:80]!r}")
    return entry


def _samples(
    ranks: Sequence[Sequence[dict[str, Any]]], steps: Sequence[Sequence[dict[str, Any]]]
) -> dict[str, Samples]:
    num_steps = min(map(len, steps))
    table = np.array([[entry["time_s"] for entry in own[:num_steps]] for own in steps])
    found: dict[str, Samples] = {"step_time_s": table.max(axis=0)}
    if all("tokens" in entry for own in steps for entry in own):
        tokens = np.array([[entry["tokens"] for entry in own[:num_steps]] for own in steps])
        found["tokens_per_step"] = tokens.sum(axis=0)
    losses = [entry["loss"] for entry in steps[0][:num_steps] if "loss" in entry]
    if losses:
        found["loss"] = np.array([np.mean(losses[-max(1, len(losses) // 10) :])])
    for name in _MEMORY:
        values = [e[name] for rank in ranks for e in rank if e["kind"] == "memory" and name in e]
        if values:
            found[name] = np.array([max(values)], dtype=np.int64)
    inits = [
        entry["time_s"]
        for rank in ranks
        for entry in rank
        if entry["kind"] == "phase" and entry.get("name") == "process_group_init"
    ]
    if inits:
        found["process_group_init_s"] = np.array([max(inits)])
    return found


def first_step_at(directory: Path, world_size: int) -> float | None:
    """Unix time at which the last rank began its first step; None where one has no step."""
    starts: list[float] = []
    for rank in range(world_size):
        entries = records.read(records.rank_file(directory, rank))
        first = next((entry for entry in entries if entry["kind"] == "step"), None)
        if first is None:
            return None
        starts.append(first["at"] - first["time_s"])
    return max(starts)


def reproduction(spec: LaunchSpec) -> str:
    """A shell command that runs this trial by hand, alone and without turns."""
    variables = [
        f"{name}={shlex.quote(value)}"
        for name, value in sorted(local.environment(spec).items())
        if not name.startswith("PACELINE_") and name not in ("PATH", "HOME", "TMPDIR")
    ]
    argv = shlex.join(local.command(spec))
    is_gone = spec.working_dir.is_relative_to(spec.scratch)
    folder = '"$(mktemp -d)"' if is_gone else shlex.quote(str(spec.working_dir))
    return f"cd {folder} && env {' '.join(variables)} {argv}"
