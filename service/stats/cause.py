"""Why a step got slower, or faster, in one sentence with its evidence."""

from collections.abc import Sequence

from service.stats.breakdown import Category
from service.stats.difference import REMAINDER, Difference, Direction, Row, StepDifference
from service.stats.words import milliseconds

# One rank waits for another if so much of the difference is spent waiting by one rank only.
_STRAGGLING_SHARE = 0.5


def cause(difference: Difference) -> str:
    """What contributed most to the difference of two sides' steps.

    Ranks that wait for each other are equally late, so where the waiting of one grew and that of
    another did not, the one that does not wait is asked: it is the straggler.
    """
    sign = 1 if difference.mean.delta_s >= 0 else -1
    waits_s = [sign * rank.exposed_s for rank in difference.ranks]
    alone_s = max(waits_s) - max(min(waits_s), 0.0)  # waiting that grew, and not on every rank
    if alone_s > 0 and alone_s >= _STRAGGLING_SHARE * abs(difference.mean.delta_s):
        return _straggler(difference, waits_s, sign)
    return _contributor(difference.mean, sign)


def _straggler(difference: Difference, waits_s: Sequence[float], sign: int) -> str:
    """`rank 1 waits 50.0 ms more a step in gloo:all_reduce: rank 0 is the straggler (...)`."""
    straggler, waiting = waits_s.index(min(waits_s)), waits_s.index(max(waits_s))
    where = _largest(_of(difference.ranks[waiting].parts, Category.COMMUNICATION), sign)
    assert where is not None  # it waits more than another, somewhere
    is_now = ("more", "is") if sign > 0 else ("less", "was")
    return (
        f"rank {waiting} waits {milliseconds(abs(where.delta_s))} {is_now[0]} a step in "
        f"{where.name}: rank {straggler} {is_now[1]} the straggler "
        f"({_contributor(difference.ranks[straggler], sign)})"
    )


def _contributor(step: StepDifference, sign: int) -> str:
    """The part whose time changed most in the direction of `sign`, and what is known of it."""
    row = _largest(step.parts, sign)
    if row is None:
        return "no part of the step changed"
    operator = _largest(_of(step.operators, row.category), sign)
    match row.category:
        case Category.COMPUTE:
            return _evidence(operator or row)
        case Category.COMMUNICATION:
            return f"{_evidence(row)} that no compute covers"
        case Category.DATA:
            return f"waiting for data: {_more(row)} a step"
        case Category.HOST:
            during = f", most in {_evidence(operator)}" if operator else ""
            return f"host: idle device while the host runs, {_more(row)} a step{during}"
        case Category.IDLE:
            return (
                f"host: idle while nothing recorded runs, {_more(row)} a step: Python between "
                "operators, or a sleep"
            )


def _largest(rows: Sequence[Row], sign: int) -> Row | None:
    """The row that moved furthest in the direction of `sign`; None where none did."""
    moved = [row for row in rows if sign * row.delta_s > 0 and row.name != REMAINDER]
    return max(moved, key=lambda row: sign * row.delta_s, default=None)


def _of(rows: Sequence[Row], category: Category) -> list[Row]:
    return [row for row in rows if row.category is category]


def _evidence(row: Row) -> str:
    """`aten::mm [512x64, 64x64]: 20 more calls a step, +3.1 ms`."""
    name = row.name or row.category.value
    shapes = f" [{row.shapes[0]}]" if len(row.shapes) == 1 else ""
    calls = f"{abs(row.delta_calls):g}"
    noun = "call" if calls == "1" else "calls"
    match row.direction:
        case Direction.ADDED:
            change = f"new, {calls} {noun} a step, {_more(row)}"
        case Direction.REMOVED:
            change = f"gone, {calls} {noun} a step, {_more(row)}"
        case Direction.MORE | Direction.FEWER:
            change = f"{calls} {row.direction} {noun} a step, {_more(row)}"
        case _:
            change = f"{row.direction}, {_more(row)} a step in as many calls"
    return f"{name}{shapes}: {change}"


def _more(row: Row) -> str:
    return milliseconds(row.delta_s, sign="+")
