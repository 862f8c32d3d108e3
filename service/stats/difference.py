"""How the steps of two sides differ, part by part: what became slower, and what runs more often.

Parts add up to the difference of the step; the operators of a category, with a remainder that is
named, add up to the category's. Calls are counted exactly; times are as noisy as the machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain

from service.stats.breakdown import Breakdown, Category, Part

# What operators do not explain of their category: two of them at once, on two threads or streams.
REMAINDER = "(overlap of operators)"
OTHERS = "(other operators)"  # small ones, together


class Direction(StrEnum):
    """How a row changed: by its calls where they did, for those are exact, else by its time."""

    ADDED = "added"
    REMOVED = "removed"
    MORE = "more"
    FEWER = "fewer"
    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A category, collective or operator on both sides: seconds and calls per step."""

    category: Category
    name: str = ""
    baseline_s: float = 0.0
    candidate_s: float = 0.0
    baseline_calls: float = 0.0
    candidate_calls: float = 0.0
    shapes: tuple[str, ...] = ()  # those whose calls changed

    @property
    def delta_s(self) -> float:
        return self.candidate_s - self.baseline_s

    @property
    def delta_calls(self) -> float:
        return self.candidate_calls - self.baseline_calls

    @property
    def direction(self) -> Direction:
        if self.delta_calls:
            if not self.baseline_calls:
                return Direction.ADDED
            if not self.candidate_calls:
                return Direction.REMOVED
            return Direction.MORE if self.delta_calls > 0 else Direction.FEWER
        if self.delta_s:
            return Direction.SLOWER if self.delta_s > 0 else Direction.FASTER
        return Direction.SAME


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """A mean step of both sides, in seconds, and the rows that its difference consists of."""

    baseline_s: float
    candidate_s: float
    parts: tuple[Row, ...]
    operators: tuple[Row, ...]

    @property
    def delta_s(self) -> float:
        return self.candidate_s - self.baseline_s

    @property
    def exposed_s(self) -> float:
        """How much more of a step is communication that nothing covers."""
        return sum(row.delta_s for row in self.parts if row.category is Category.COMMUNICATION)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two sides' steps: rank by rank, and in the mean over ranks."""

    ranks: tuple[StepDifference, ...]
    mean: StepDifference


def difference(baseline: Sequence[Breakdown], candidate: Sequence[Breakdown]) -> Difference:
    """The difference of two sides, whose breakdowns are in the order of their ranks.

    Raises ValueError for sides of no rank or of different world sizes.
    """
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError(
            f"the baseline has {len(baseline)} profiled ranks and the candidate {len(candidate)}: "
            "profile every rank of both at one world size"
        )
    return Difference(
        ranks=tuple(map(_step_difference, baseline, candidate)),
        mean=_step_difference(_together(baseline), _together(candidate)),
    )


def shortened(difference: Difference, num_operators: int) -> Difference:
    """The same with no more operators than that, which changed most in the mean over ranks, and no
    operators of single ranks. The others of a category are one row, so that sums stay.
    """
    mean = difference.mean
    named = [row for row in mean.operators if row.name != REMAINDER]
    kept, others = named[:num_operators], named[num_operators:]
    rest = [row for row in mean.operators if row.name == REMAINDER]
    rest += [
        _sum([row for row in others if row.category is category], OTHERS)
        for category in dict.fromkeys(row.category for row in others)
    ]
    return Difference(
        ranks=tuple(replace(rank, operators=()) for rank in difference.ranks),
        mean=replace(mean, operators=_largest_first([*kept, *rest])),
    )


def _sum(rows: Sequence[Row], name: str) -> Row:
    """Rows of one category as one, whose calls are not told: they are of many operators."""
    return Row(
        category=rows[0].category,
        name=name,
        baseline_s=sum(row.baseline_s for row in rows),
        candidate_s=sum(row.candidate_s for row in rows),
    )


def _together(ranks: Sequence[Breakdown]) -> Breakdown:
    """The steps of all ranks, as if one had run them."""
    return Breakdown(
        num_steps=sum(rank.num_steps for rank in ranks),
        time_ns=sum(rank.time_ns for rank in ranks),
        parts=tuple(chain.from_iterable(rank.parts for rank in ranks)),
        operators=tuple(chain.from_iterable(rank.operators for rank in ranks)),
    )


def _step_difference(baseline: Breakdown, candidate: Breakdown) -> StepDifference:
    counts = baseline.num_steps, candidate.num_steps
    parts = list(_rows(baseline.parts, candidate.parts, *counts))
    operators = list(_rows(baseline.operators, candidate.operators, *counts))
    return StepDifference(
        baseline_s=_per_step(baseline.time_ns, baseline.num_steps),
        candidate_s=_per_step(candidate.time_ns, candidate.num_steps),
        parts=_largest_first(parts),
        operators=_largest_first([*operators, *_remainders(parts, operators)]),
    )


@dataclass
class _Total:
    """What parts of one name sum up to on one side."""

    time_ns: int = 0
    num_calls: int = 0
    calls_by_shapes: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, part: Part) -> None:
        self.time_ns += part.time_ns
        self.num_calls += part.num_calls
        self.calls_by_shapes[part.shapes] += part.num_calls


def _rows(
    baseline: Iterable[Part], candidate: Iterable[Part], num_baseline: int, num_candidate: int
) -> Iterator[Row]:
    """A row for each name of either side; the numbers are those of their steps."""
    before, after = _totals(baseline), _totals(candidate)
    for key in dict.fromkeys([*before, *after]):
        old, new = before[key], after[key]
        yield Row(
            category=key[0],
            name=key[1],
            baseline_s=_per_step(old.time_ns, num_baseline),
            candidate_s=_per_step(new.time_ns, num_candidate),
            baseline_calls=old.num_calls / num_baseline,
            candidate_calls=new.num_calls / num_candidate,
            shapes=tuple(_changed(old, new, num_baseline, num_candidate)),
        )


def _changed(old: _Total, new: _Total, num_baseline: int, num_candidate: int) -> Iterator[str]:
    """The shapes that have more or fewer calls per step than they had."""
    before, after = old.calls_by_shapes, new.calls_by_shapes
    for shapes in dict.fromkeys([*before, *after]):
        if shapes and before[shapes] * num_candidate != after[shapes] * num_baseline:
            yield shapes


def _totals(parts: Iterable[Part]) -> dict[tuple[Category, str], _Total]:
    totals: dict[tuple[Category, str], _Total] = defaultdict(_Total)
    for part in parts:
        totals[part.category, part.name].add(part)
    return totals


def _remainders(parts: Sequence[Row], operators: Sequence[Row]) -> Iterator[Row]:
    """For each category with operators, what they leave of it; negative where they overlap."""
    for category in dict.fromkeys(row.category for row in operators):
        whole = [row for row in parts if row.category is category]
        known = [row for row in operators if row.category is category]
        yield Row(
            category=category,
            name=REMAINDER,
            baseline_s=sum(r.baseline_s for r in whole) - sum(r.baseline_s for r in known),
            candidate_s=sum(r.candidate_s for r in whole) - sum(r.candidate_s for r in known),
        )


def _per_step(time_ns: int, num_steps: int) -> float:
    return time_ns / num_steps / 1e9


def _largest_first(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: -abs(row.delta_s)))
