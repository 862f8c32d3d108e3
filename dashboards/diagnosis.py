"""Why a case got slower, as the page and the report print it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from dashboards import format
from service.db.views import ComparisonView, DiagnosisView
from service.domain import Role
from service.stats.breakdown import Category
from service.stats.difference import Difference, Row, StepDifference
from service.stats.nccl import changes

_STEP_TIME = "step_time_s"
_PARTS = {
    Category.COMPUTE: "Compute",
    Category.COMMUNICATION: "Exposed communication",
    Category.DATA: "Waiting for data",
    Category.HOST: "Host, device idle",
    Category.IDLE: "Idle, nothing recorded runs",
}


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """A time of a step on both sides. `is_sum` where it is not one of the parts above it."""

    name: str
    baseline: str
    candidate: str
    change: str
    note: str = ""
    is_sum: bool = False


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """How much longer a rank's step is, in all and by category."""

    rank: int
    changes: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class DiagnosisSection:
    """One case's. `library` holds what NCCL chose differently; `trials` were profiled."""

    sentence: str
    is_known: bool
    library: Sequence[str]
    steps: Sequence[TimeRow]
    operators: Sequence[TimeRow]
    categories: Sequence[str]
    ranks: Sequence[RankRow]
    trials: frozenset[UUID | None]


def diagnosis_section(
    view: DiagnosisView, comparisons: Sequence[ComparisonView]
) -> DiagnosisSection:
    """The section of a case that has these comparisons."""
    found = view.difference
    shown = [] if found is None else _categories(found)
    return DiagnosisSection(
        sentence=view.cause or f"Cause unknown. {view.reason}",
        is_known=view.cause is not None,
        library=changes(*(view.library.get(role, {}) for role in Role)),
        steps=[] if found is None else list(_steps(found.mean, comparisons)),
        operators=[] if found is None else [_operator(row) for row in found.mean.operators],
        categories=[_PARTS[category] for category in shown],
        ranks=[] if found is None else list(_ranks(found, shown)),
        trials=frozenset({view.baseline_trial_id, view.candidate_trial_id}),
    )


def _categories(difference: Difference) -> list[Category]:
    """Those in which a rank spent time, in their order."""
    spent = {
        row.category
        for rank in difference.ranks
        for row in rank.parts
        if row.baseline_s or row.candidate_s
    }
    return [category for category in Category if category in spent]


def _steps(step: StepDifference, comparisons: Sequence[ComparisonView]) -> Iterator[TimeRow]:
    """The parts, their sum, and what is left of the difference that the pairs measured."""
    for row in step.parts:
        if row.baseline_s or row.candidate_s:
            name = _PARTS[row.category] + (f": {row.name}" if row.name else "")
            yield _row(name, row.baseline_s, row.candidate_s, note=_calls(row))
    yield _row("The profiled step", step.baseline_s, step.candidate_s, is_sum=True)
    measured = next((item for item in comparisons if item.metric == _STEP_TIME), None)
    if measured is None or measured.baseline_value is None or measured.effect is None:
        return
    before = measured.baseline_value
    after = before * math.exp(measured.effect)
    yield TimeRow(
        name="Remainder: what profiling adds or hides",
        baseline=format.NOTHING,
        candidate=format.NOTHING,
        change=format.seconds_more(after - before - step.delta_s),
    )
    yield _row("The step that the pairs measured", before, after, is_sum=True)


def _operator(row: Row) -> TimeRow:
    shapes = f"; shapes {', '.join(row.shapes[:3])}" if row.shapes else ""
    where = "" if row.category is Category.COMPUTE else f" ({_PARTS[row.category].lower()})"
    note = f"{row.direction}, {_calls(row)}{shapes}" if _calls(row) else ""
    return _row(row.name + where, row.baseline_s, row.candidate_s, note=note)


def _calls(row: Row) -> str:
    """`60 calls a step`, `60 → 80 calls a step`; nothing for what is no call."""
    before, after = f"{row.baseline_calls:g}", f"{row.candidate_calls:g}"
    if before == after:
        return "" if before == "0" else f"{before} calls a step"
    return f"{before} → {after} calls a step"


def _ranks(difference: Difference, shown: Sequence[Category]) -> Iterator[RankRow]:
    for number, rank in enumerate(difference.ranks):
        parts = [
            sum(row.delta_s for row in rank.parts if row.category is category) for category in shown
        ]
        yield RankRow(rank=number, changes=[format.seconds_more(s) for s in (rank.delta_s, *parts)])


def _row(
    name: str, baseline_s: float, candidate_s: float, *, note: str = "", is_sum: bool = False
) -> TimeRow:
    return TimeRow(
        name=name,
        baseline=_time(baseline_s),
        candidate=_time(candidate_s),
        change=format.seconds_more(candidate_s - baseline_s),
        note=note,
        is_sum=is_sum,
    )


def _time(value_s: float) -> str:
    """A time of a step; an overlap counts below nothing."""
    return f"{'−' if value_s < 0 else ''}{format.seconds(abs(value_s))}"
