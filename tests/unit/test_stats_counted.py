"""Counts of two sides: equal or not, in words, with the operators that explain it."""

import math
from collections.abc import Mapping

import pytest

from service.domain import Policy, Rule, Verdict
from service.stats.comparison import MetricComparison
from service.stats.counted import Counts, compare_counted, differing

FLOPS = "static_flops"
GATHERS = "static_num_collectives@all_gather"


def judged(
    baseline: Mapping[str, float], candidate: Mapping[str, float], policy: Policy | None = None
) -> dict[str, MetricComparison]:
    sides = Counts(values=baseline), Counts(values=candidate)
    return {item.metric: item for item in compare_counted(*sides, policy or Policy())}


def tolerating(metric: str, min_effect: float, *, gate: bool = True) -> Policy:
    return Policy(metrics={metric: Rule(min_effect=min_effect, gate=gate)})


def test_equal_counts_are_no_change():
    found = judged({FLOPS: 10**15}, {FLOPS: 10**15})[FLOPS]
    assert (found.verdict, found.effect) == (Verdict.NO_CHANGE, 0.0)
    assert (found.low, found.high) == (None, None)
    assert found.reasons == ("FLOPs: 1 PFLOP on both sides.",)


@pytest.mark.parametrize(("after", "verdict"), [(66, "regression"), (64, "improvement")])
def test_any_difference_is_a_change(after: int, verdict: str):
    found = judged({GATHERS: 65}, {GATHERS: after})[GATHERS]
    assert found.verdict == verdict
    assert found.effect == pytest.approx(math.log(after / 65))
    assert found.is_gating
    assert (found.num_pairs, found.decided_at) == (1, 1)


def test_the_reason_has_both_counts_and_their_difference():
    (reason,) = judged({GATHERS: 65}, {GATHERS: 66})[GATHERS].reasons
    assert reason == "Collectives, all gather: 65 before, 66 now (+1, +1.5 %)."


def test_a_ratio_has_no_unit_and_rounding_hides_no_difference_of_it():
    bubble = "static_bubble_ratio"
    (reason,) = judged({bubble: 3 / 11}, {bubble: 3 / 19})[bubble].reasons
    assert reason == "Pipeline bubble: 0.2727 before, 0.1579 now (-0.1148, -42.1 %)."
    found = judged({bubble: 0.27271}, {bubble: 0.27272})[bubble]
    assert found.verdict is Verdict.REGRESSION
    assert "0.27271 before, 0.27272 now" in found.reasons[0]


def test_rounding_hides_no_difference():
    (reason,) = judged({FLOPS: 10**15}, {FLOPS: 10**15 + 1})[FLOPS].reasons
    assert "1,000,000,000,000,000 FLOP before, 1,000,000,000,000,001 FLOP now (+1 FLOP" in reason


@pytest.mark.parametrize(
    ("before", "after", "verdict", "words"),
    [
        ({GATHERS: 0}, {GATHERS: 3}, "regression", "0 before, 3 now (+3)"),
        ({}, {GATHERS: 3}, "regression", "0 before, 3 now (+3)"),
        ({GATHERS: 3}, {}, "improvement", "3 before, 0 now (-3)"),
        ({GATHERS: 0}, {}, "no_change", "0 on both sides"),
    ],
)
def test_a_kind_that_does_not_occur_counts_as_none(
    before: dict[str, int], after: dict[str, int], verdict: str, words: str
):
    found = judged(before, after)[GATHERS]
    assert found.verdict == verdict
    assert words in found.reasons[0]
    assert (found.effect is None) == (verdict != "no_change")


def test_what_one_side_does_not_count_is_not_nothing():
    found = judged({FLOPS: 5}, {})[FLOPS]
    assert found.verdict is Verdict.MISSING
    assert found.reasons == ("The candidate counted no static_flops; the baseline did.",)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(1010, "no_change"), (990, "improvement"), (991, "no_change"), (1011, "regression")],
)
def test_the_policy_may_tolerate_a_change(after: int, verdict: str):
    found = judged({FLOPS: 1000}, {FLOPS: after}, tolerating(FLOPS, 0.01))[FLOPS]
    assert found.verdict == verdict
    assert any("tolerates 1.0 %" in reason for reason in found.reasons) == (verdict == "no_change")


def test_no_tolerance_covers_what_was_not_there_before():
    policy = tolerating("static_num_collectives", 0.5)
    assert judged({}, {GATHERS: 1}, policy)[GATHERS].verdict is Verdict.REGRESSION


def test_a_rule_of_a_family_holds_for_its_members():
    policy = tolerating("static_collective_bytes", 0.1, gate=False)
    name = "static_collective_bytes@all_gather"
    assert not judged({name: 5}, {name: 9}, policy)[name].is_gating


def test_operators_are_shown_but_not_judged():
    assert not judged({"static_num_operators": 5}, {"static_num_operators": 9})


def test_operators_that_differ_come_by_the_size_of_the_difference():
    before = {"aten.mm": 87, "aten.add": 4, "aten.t": 9}
    after = {"aten.mm": 88, "aten.t": 9, "aten.mul": 1}
    assert differing(before, after) == [("aten.add", 4, 0), ("aten.mm", 87, 88), ("aten.mul", 0, 1)]


def test_the_reasons_name_the_operators_ten_at_most():
    before = Counts(values={FLOPS: 5}, operators={f"aten.op{n:02}": n for n in range(12)})
    after = Counts(values={FLOPS: 6}, operators={})
    (found,) = compare_counted(before, after, Policy())
    _observed, operators = found.reasons
    assert operators.startswith("Calls of operators that differ: aten.op11: 11 -> 0, aten.op10")
    assert operators.endswith("aten.op02: 2 -> 0, and 1 more.")
    assert found.parameters["operators"][0] == ["aten.op11", 11, 0]
    assert len(found.parameters["operators"]) == 10
    assert found.parameters["num_operators_differing"] == 11


def test_counts_of_different_torches_say_so():
    before = Counts(values={FLOPS: 5}, torch="2.12.0")
    after = Counts(values={FLOPS: 5}, torch="2.13.0")
    (found,) = compare_counted(before, after, Policy())
    assert found.verdict is Verdict.NO_CHANGE
    assert "different versions of torch, 2.12.0 and 2.13.0" in found.reasons[-1]
    assert found.parameters["torch"] == ["2.12.0", "2.13.0"]
