"""From the records of a trial's ranks to samples of its metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.plainfile import MAX_BYTES
from service.db.base import Samples
from service.domain import Failure, FailureReason
from service.metrics import Better, Method, Metric, find
from workloads import records

_MEMORY = ("peak_rss_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
_ALLOCATOR = "allocator_retries"
# The facts we use, by kind of record, and the least each may be. A step of no time and a process
# of no memory have no logarithm.
_LEAST: dict[str, dict[str, float]] = {
    "step": {"at": 0, "time_s": 1e-9, "tokens": 0},
    "memory": {**dict.fromkeys(_MEMORY, 1), _ALLOCATOR: 0},
    "phase": {"time_s": 0},
    "summary": {"num_steps": 0},
}
# What a step record has of its own; of the rest what is named like a metric is one.
_OWN = {"v", "kind", "rank", "at", "step", "time_s", "turn", "tokens", "loss", "model_flops"}
_TOLD_ONCE = {"compile_time_s"}  # other metrics without a value per step are ours to find out
_MAX_TOLD = 200
_INFINITE = 1e300  # a loss beyond it: the mean of a few would be infinite

Ranks = Sequence[Sequence[dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the records of a trial say: samples by metric, warm-up included; of a static trial also
    the calls of each operator.
    """

    samples: Mapping[str, Samples] = field(default_factory=dict)
    num_warmup_steps: int = 0
    operators: Mapping[str, int] = field(default_factory=dict)


def read_samples(
    directory: Path, world_size: int, launched_at: float, max_steps: int | None = None
) -> dict[str, Samples] | Failure:
    """Metrics of a trial from its ranks' records, or why they are unusable.

    step_time_s has a value per step, the maximum over ranks; tokens_per_step, the sum over ranks,
    is there only if every step told its tokens. A step may tell other metrics by their name: of
    those the worst rank counts. `launched_at` is the Unix time at which the trial was launched;
    steps past the first `max_steps` do not count.
    """
    try:
        ranks = read_ranks(directory, world_size)
        steps = [of_kind("step", rank) for rank in ranks]
        failed = _silent(steps) or _diverged(steps) or lost(ranks)
        if failed is not None:
            return failed
        told = _told([own[:max_steps] for own in steps])
    except ValueError as error:
        return Failure(reason=FailureReason.BAD_RECORDS, detail=str(error))
    first_step_at = max(own[0]["at"] - own[0]["time_s"] for own in steps)
    startup = {"startup_time_s": np.array([first_step_at - launched_at])}
    return told | _per_step([own[:max_steps] for own in steps]) | _once(ranks) | startup


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


def read_ranks(directory: Path, world_size: int) -> Ranks:
    """The records of each rank, oldest first. Raises ValueError for unusable ones."""
    _refuse_strangers(directory, world_size)
    return [_read(directory, rank) for rank in range(world_size)]


def _refuse_strangers(directory: Path, world_size: int) -> None:
    """Raise ValueError where there are records of ranks that the case does not have."""
    ours = {records.rank_file(directory, rank).name for rank in range(world_size)}
    for path in directory.glob("rank-*.jsonl"):
        if path.name not in ours:
            raise ValueError(
                f"There are records of another rank, {path.name[:80]!a}, but the case's "
                f"world_size is {world_size}. RANK, which torchrun sets, names a rank's file."
            )


def _read(directory: Path, rank: int) -> list[dict[str, Any]]:
    """The records of a rank, none where it has no file. Raises ValueError for unusable ones."""
    path = records.rank_file(directory, rank)
    try:
        num_bytes = path.lstat().st_size
        if num_bytes > MAX_BYTES:
            raise ValueError(
                f"{path.name} has {num_bytes} bytes; at most {MAX_BYTES} are read. Let the "
                "trainer take fewer steps or note less."
            )
        entries = list(map(_checked, records.read(path)))
    except FileNotFoundError:
        return []
    except OSError as error:
        detail = f"{path.name} cannot be read: {error.strerror}. Leave it to Records."
        raise ValueError(detail) from error
    _refuse_disorder(path.name, rank, entries)
    return entries


def _refuse_disorder(name: str, rank: int, entries: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError for records of another rank and for steps that do not rise."""
    for entry in entries:
        if entry.get("rank") != rank:
            raise ValueError(
                f"{name} has a record of rank {str(entry.get('rank'))[:80]!r}. A rank opens its "
                "own Records, with the RANK that torchrun set."
            )
    for one, next_one in pairwise(entry["step"] for entry in of_kind("step", entries)):
        if next_one <= one:
            raise ValueError(
                f"{name} has step {next_one} after step {one}. Steps are counted upwards, by one "
                "Turns for the whole training."
            )


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


def of_kind(kind: str, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of one kind, in their order."""
    return [entry for entry in entries if entry["kind"] == kind]


def _silent(steps: Ranks) -> Failure | None:
    """The failure of a rank that recorded no step."""
    for rank, own in enumerate(steps):
        if not own:
            detail = (
                f"Rank {rank} recorded no step. A trainer calls `turns.step()` once per step and "
                "passes its Records to Turns."
            )
            return Failure(reason=FailureReason.NO_STEPS, detail=detail)
    return None


def _diverged(steps: Ranks) -> Failure | None:
    """The failure of a rank whose loss is no number any more."""
    for rank, own in enumerate(steps):
        for entry in own:
            if not abs(entry.get("loss", 0.0)) < _INFINITE:
                detail = f"The loss of rank {rank} is {entry['loss']} at step {entry['step']}."
                return Failure(reason=FailureReason.NAN_LOSS, detail=detail)
    return None


def lost(ranks: Ranks) -> Failure | None:
    """The failure of a rank that did not come to its end."""
    for rank, entries in enumerate(ranks):
        num_steps = len(of_kind("step", entries))
        told = [entry.get("num_steps", 0) for entry in of_kind("summary", entries)]
        if not told or sum(told) != num_steps:
            summary = f"a summary that tells of {sum(told)}" if told else "no summary"
            detail = (
                f"Rank {rank} was lost: it recorded {num_steps} steps and {summary}. A trainer "
                "ends with `records.close()`, on every rank."
            )
            return Failure(reason=FailureReason.BAD_RECORDS, detail=detail)
    return None


def _per_step(steps: Ranks) -> dict[str, Samples]:
    """Metrics of what ranks recorded per step; a step that not every rank ended is left out."""
    num_steps = min(map(len, steps))
    table = np.array([[entry["time_s"] for entry in own[:num_steps]] for own in steps])
    found: dict[str, Samples] = {"step_time_s": table.max(axis=0)}
    if all("tokens" in entry for own in steps for entry in own):
        tokens = [[float(entry["tokens"]) for entry in own[:num_steps]] for own in steps]
        found["tokens_per_step"] = np.sum(tokens, axis=0)
    losses = [entry["loss"] for entry in steps[0][:num_steps] if "loss" in entry]
    if losses:
        found["loss"] = np.array([np.mean(losses[-max(1, len(losses) // 10) :])])
    return found


def _told(steps: Ranks) -> dict[str, Samples]:
    """Metrics that steps told by name, of the worst rank: a value per step, or one for the trial.

    Raises ValueError for a value that has no place among them.
    """
    names = {name for own in steps for entry in own for name in entry.keys() - _OWN}
    if len(names) > _MAX_TOLD:
        raise ValueError(f"Steps told {len(names)} facts by name; at most {_MAX_TOLD} are read.")
    return {
        metric.name: _per_step_told(metric, steps)
        if metric.is_per_step
        else _once_told(metric, steps)
        for metric in map(find, sorted(names))
        if metric is not None and (metric.is_per_step or metric.name in _TOLD_ONCE)
    }


def _per_step_told(metric: Metric, steps: Ranks) -> NDArray[np.float64]:
    num_steps = min(map(len, steps))
    rows = [[_value(metric, entry) for entry in own[:num_steps]] for own in steps]
    return _worst(metric, np.array(rows))


def _once_told(metric: Metric, steps: Ranks) -> NDArray[np.float64]:
    values = [_value(metric, entry) for own in steps for entry in own if metric.name in entry]
    return _worst(metric, np.array([values]).T)


def _worst(metric: Metric, of_ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The worst over the first axis."""
    worst = np.max if metric.better is Better.LOWER else np.min
    return np.asarray(worst(of_ranks, axis=0))


def _value(metric: Metric, entry: dict[str, Any]) -> float:
    """What a step told of a metric. Raises ValueError where it cannot be compared."""
    value = entry.get(metric.name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _INFINITE:
        detail = (
            f"step {entry['step']} of rank {entry['rank']}: {metric.name} is {str(value)[:80]!r}"
        )
        raise ValueError(f"{detail}. Every step of every rank tells it as a number, or none does.")
    if metric.method is not Method.RECORDED and value <= 0:
        detail = f"step {entry['step']} of rank {entry['rank']}: {metric.name} is {value}"
        raise ValueError(f"{detail}. It is compared by its logarithm: above 0 only.")
    return float(value)


def _once(ranks: Ranks) -> dict[str, Samples]:
    """Metrics of which a trial has one value, the maximum over ranks."""
    entries = [entry for rank in ranks for entry in rank]
    found: dict[str, Samples] = {}
    for name in (*_MEMORY, _ALLOCATOR):
        values = [e[name] for e in of_kind("memory", entries) if name in e]
        if values:
            found[name] = np.array([max(values)], dtype=np.int64)
    inits = [
        entry["time_s"]
        for entry in of_kind("phase", entries)
        if entry.get("name") == "process_group_init"
    ]
    if inits:
        found["process_group_init_s"] = np.array([max(inits)])
    return found
