"""From the records of a trial's ranks to samples of its metrics."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from service.db.base import Samples
from service.domain import Failure, FailureReason
from workloads import records

_MEMORY = ("peak_rss_bytes", "peak_allocated_bytes")
# The facts we use, by kind of record, and the least each may be. A step of no time and a process
# of no memory have no logarithm.
_LEAST: dict[str, dict[str, float]] = {
    "step": {"at": 0, "time_s": 1e-9, "tokens": 0},
    "memory": dict.fromkeys(_MEMORY, 1),
    "phase": {"time_s": 0},
}

Ranks = Sequence[Sequence[dict[str, Any]]]


def read_samples(
    directory: Path, world_size: int, launched_at: float
) -> dict[str, Samples] | Failure:
    """Metrics of a trial from its ranks' records, or why they are unusable.

    step_time_s has a value per step, the maximum over ranks; tokens_per_step, the sum over ranks,
    is there only if every step told its tokens; every other metric has one value. `launched_at` is
    the Unix time at which the trial was launched.
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
    first_step_at = max(own[0]["at"] - own[0]["time_s"] for own in steps)
    startup = {"startup_time_s": np.array([first_step_at - launched_at])}
    return _per_step(steps) | _once(ranks) | startup


def with_throughput(samples: Mapping[str, Samples], warmup: int) -> dict[str, Samples]:
    """Samples with work over time: steps_per_s, and tokens_per_s where every step told its tokens.

    Both are over the summed step times of the steady window: a median hides rare long steps. Steps
    are always counted, for the other side may tell no tokens.
    """
    found = dict(samples)
    tokens = found.pop("tokens_per_step", None)
    times = found["step_time_s"][warmup:]
    found["steps_per_s"] = np.array([len(times) / times.sum()])
    if tokens is not None and tokens[warmup:].any():
        found["tokens_per_s"] = np.array([tokens[warmup:].sum() / times.sum()])
    return found


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


def _per_step(steps: Ranks) -> dict[str, Samples]:
    """Metrics of what ranks recorded per step; a step that not every rank ended is left out."""
    num_steps = min(map(len, steps))
    table = np.array([[entry["time_s"] for entry in own[:num_steps]] for own in steps])
    found: dict[str, Samples] = {"step_time_s": table.max(axis=0)}
    if all("tokens" in entry for own in steps for entry in own):
        tokens = np.array([[entry["tokens"] for entry in own[:num_steps]] for own in steps])
        found["tokens_per_step"] = tokens.sum(axis=0)
    losses = [entry["loss"] for entry in steps[0][:num_steps] if "loss" in entry]
    if losses:
        found["loss"] = np.array([np.mean(losses[-max(1, len(losses) // 10) :])])
    return found


def _once(ranks: Ranks) -> dict[str, Samples]:
    """Metrics of which a trial has one value, the maximum over ranks."""
    entries = [entry for rank in ranks for entry in rank]
    found: dict[str, Samples] = {}
    for name in _MEMORY:
        values = [e[name] for e in entries if e["kind"] == "memory" and name in e]
        if values:
            found[name] = np.array([max(values)], dtype=np.int64)
    inits = [
        entry["time_s"]
        for entry in entries
        if entry["kind"] == "phase" and entry.get("name") == "process_group_init"
    ]
    if inits:
        found["process_group_init_s"] = np.array([max(inits)])
    return found
