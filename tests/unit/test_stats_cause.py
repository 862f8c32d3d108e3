"""The difference of two sides and the sentence that names its cause; times in milliseconds."""

import pytest

from service.stats.breakdown import Breakdown, Category, Part
from service.stats.cause import cause
from service.stats.difference import REMAINDER, Direction, difference

MS = 1_000_000
MM, REDUCE = "aten::mm", "gloo:all_reduce"


def operator(name: str, time_ms: int, num_calls: int, shapes: str = "", host: bool = False) -> Part:
    category = Category.HOST if host else Category.COMPUTE
    return Part(
        category=category, name=name, time_ns=time_ms * MS, num_calls=num_calls, shapes=shapes
    )


def rank(
    *operators: Part,
    compute: int = 20,
    reduce: int = 5,
    num_reduces: int = 2,
    data: int = 0,
    host: int = 0,
    idle: int = 5,
    num_steps: int = 2,
) -> Breakdown:
    times = {"compute": compute, "data": data, "host": host, "idle": idle}
    parts = [Part(category=Category(name), time_ns=ms * MS) for name, ms in times.items()]
    communication = Part(
        category=Category.COMMUNICATION, name=REDUCE, time_ns=reduce * MS, num_calls=num_reduces
    )
    return Breakdown(
        num_steps=num_steps,
        time_ns=(reduce + sum(times.values())) * MS,
        parts=(*parts, communication),
        operators=operators,
    )


def said(baseline: Breakdown, *candidate: Breakdown) -> str:
    return cause(difference([baseline] * len(candidate), candidate))


BASE = rank(operator(MM, 12, 4, "8x8, 8x8"), operator("aten::add", 6, 2))


def test_rows_add_up_to_the_difference_with_the_remainder_named():
    other = rank(operator(MM, 30, 9), operator("aten::relu", 2, 3), compute=50, num_steps=3)
    (found,) = difference([BASE], [other]).ranks
    assert found.delta_s == pytest.approx(0.060 / 3 - 0.030 / 2 + 0.0, abs=1e-12)
    assert sum(row.delta_s for row in found.parts) == pytest.approx(found.delta_s, abs=1e-12)
    compute = next(row for row in found.parts if row.category is Category.COMPUTE)
    assert sum(row.delta_s for row in found.operators) == pytest.approx(compute.delta_s, abs=1e-12)
    directions = {row.name: row.direction for row in found.operators}
    assert directions == {
        MM: Direction.MORE,
        "aten::add": Direction.REMOVED,
        "aten::relu": Direction.ADDED,
        REMAINDER: Direction.SLOWER,
    }


def test_steps_are_compared_not_trials():
    longer = rank(
        operator(MM, 24, 8), operator("aten::add", 12, 4),
        compute=40, reduce=10, num_reduces=4, idle=10, num_steps=4,
    )  # fmt: skip
    (found,) = difference([BASE], [longer]).ranks
    assert {row.direction for row in (*found.parts, *found.operators)} == {Direction.SAME}
    assert cause(difference([BASE], [longer])) == "no part of the step changed"


def test_more_calls_are_named_with_their_shapes():
    other = rank(operator(MM, 12, 4, "8x8, 8x8"), operator(MM, 20, 40, "9x9, 9x9"), compute=40)
    assert said(BASE, other) == "aten::mm [9x9, 9x9]: 20 more calls a step, +10.0 ms"
    assert said(other, BASE) == "aten::mm [9x9, 9x9]: 20 fewer calls a step, -10.0 ms"


def test_the_same_calls_are_slower():
    other = rank(operator(MM, 32, 4, "8x8, 8x8"), operator("aten::add", 6, 2), compute=40)
    assert said(BASE, other) == "aten::mm: slower, +10.0 ms a step in as many calls"


def test_a_new_operator_and_one_that_is_gone():
    new = operator("aten::sort", 20, 2)
    other = rank(*BASE.operators, new, compute=40)
    assert said(BASE, other) == "aten::sort: new, 1 call a step, +10.0 ms"
    assert said(other, BASE) == "aten::sort: gone, 1 call a step, -10.0 ms"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"reduce": 25, "num_reduces": 4},
            "gloo:all_reduce: 1 more call a step, +10.0 ms that no compute covers",
        ),
        (
            {"reduce": 25},
            "gloo:all_reduce: slower, +10.0 ms a step in as many calls that no compute covers",
        ),
        ({"data": 20}, "waiting for data: +10.0 ms a step"),
        (
            {"idle": 25},
            "host: idle while nothing recorded runs, +10.0 ms a step: Python between operators, "
            "or a sleep",
        ),
    ],
)
def test_what_every_rank_does_is_no_straggler(changed: dict[str, int], sentence: str):
    assert said(BASE, *[rank(*BASE.operators, **changed)] * 3) == sentence


def test_an_idle_device_is_the_host_s_doing():
    busy = operator("aten::foreach", 24, 2, host=True)
    other = rank(*BASE.operators, busy, host=24)
    assert said(BASE, other) == (
        "host: idle device while the host runs, +12.0 ms a step, most in aten::foreach: new, "
        "1 call a step, +12.0 ms"
    )


def test_the_rank_that_does_not_wait_is_the_straggler():
    slow, waiting = rank(*BASE.operators, idle=65), rank(*BASE.operators, reduce=65)
    assert said(BASE, waiting, slow, waiting) == (
        "rank 0 waits 30.0 ms more a step in gloo:all_reduce: rank 1 is the straggler (host: idle "
        "while nothing recorded runs, +30.0 ms a step: Python between operators, or a sleep)"
    )
    back = cause(difference([waiting, slow], [BASE, BASE]))
    assert back.startswith("rank 0 waits 30.0 ms less a step in gloo:all_reduce: rank 1 was the")


def test_waiting_that_only_ended_makes_no_straggler():
    waited = rank(*BASE.operators, reduce=65)
    slow = rank(operator(MM, 92, 4, "8x8, 8x8"), operator("aten::add", 6, 2), compute=100)
    sentence = cause(difference([waited, BASE], [slow, slow]))
    assert sentence == "aten::mm: slower, +40.0 ms a step in as many calls"


@pytest.mark.parametrize("ranks", [([BASE], [BASE, BASE]), ([], [])])
def test_sides_of_different_sizes_are_refused(ranks):
    with pytest.raises(ValueError, match="profile every rank of both at one world size"):
        difference(*ranks)
