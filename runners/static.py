"""From the record of a static trial to its counts."""

from pathlib import Path
from typing import Any

import numpy as np

from runners.samples import Reading, lost, of_kind, read_ranks
from service.db.base import Samples
from service.domain import Failure, FailureReason
from service.metrics import find, metric_named

_ALWAYS = "static_flops"
_MAX_COUNTS = 200
_MAX_OPERATORS = 10_000
_MAX_NAME = 200


def read_counts(directory: Path) -> Reading | Failure:
    """Counts of a static trial and the calls of each operator, or why they are unusable.

    There is one record of the kind `static`. What it counts under other names than those of static
    metrics is let be.
    """
    try:
        ranks = read_ranks(directory, world_size=1)
        failed = lost(ranks)
        if failed is not None:
            return failed
        entry = _only(of_kind("static", ranks[0]))
        metrics = _table(entry, "metrics", _MAX_COUNTS)
        return Reading(samples=_samples(metrics), operators=_operators(entry))
    except ValueError as error:
        return Failure(reason=FailureReason.BAD_RECORDS, detail=str(error))


def _only(entries: list[dict[str, Any]]) -> dict[str, Any]:
    if len(entries) != 1:
        raise ValueError(
            f"It wrote {len(entries)} records of the kind static. A static trial counts one step "
            "of one rank, and writes one."
        )
    return entries[0]


def _table(entry: dict[str, Any], field: str, most: int) -> dict[str, Any]:
    table = entry.get(field)
    if not isinstance(table, dict):
        raise ValueError(f"{field} of a static record is {str(table)[:80]!r}, no table of counts")
    if len(table) > most:
        raise ValueError(f"{field} of a static record has {len(table)} entries; {most} are read")
    return table


def _samples(metrics: dict[str, Any]) -> dict[str, Samples]:
    """Counts by the name of a static metric; those of operations are always there."""
    known = {name for name in metrics if (metric := find(name)) and metric.is_static}
    if _ALWAYS not in known:
        raise ValueError(f"A static record has no {_ALWAYS}, which every one counts.")
    return {name: np.array([_value(name, metrics[name])]) for name in sorted(known)}


def _operators(entry: dict[str, Any]) -> dict[str, int]:
    operators = _table(entry, "operators", _MAX_OPERATORS)
    for name in operators:
        if not name.isprintable() or len(name) > _MAX_NAME:
            raise ValueError(f"an operator of a static record is called {name[:80]!a}")
    return {name: _count(name, calls) for name, calls in operators.items()}


def _value(name: str, value: Any) -> float:
    """A count, or a share of one where the metric is a ratio."""
    if metric_named(name).unit != "ratio":
        return _count(name, value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name[:80]} of a static record is {str(value)[:80]!r}, no ratio")
    return float(value)


def _count(name: str, value: Any) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 0 <= value < 2**63:
        raise ValueError(f"{name[:80]} of a static record is {str(value)[:80]!r}, no count")
    return int(value)
