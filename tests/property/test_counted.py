from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain import Policy, Rule, Verdict
from service.stats.comparison import MetricComparison
from service.stats.counted import Counts, compare_counted

counts = st.integers(0, 2**53)
deltas = st.sampled_from([0.0, 0.01, 0.5])
quick = settings(max_examples=200, deadline=None, derandomize=True)
MIRROR = {
    Verdict.REGRESSION: Verdict.IMPROVEMENT,
    Verdict.IMPROVEMENT: Verdict.REGRESSION,
    Verdict.NO_CHANGE: Verdict.NO_CHANGE,
}


def judged(before: int, after: int, delta: float = 0.0) -> MetricComparison:
    sides = (Counts(values={"static_flops": count}) for count in (before, after))
    policy = Policy(metrics={"static_flops": Rule(min_effect=delta, gate=True)})
    (found,) = compare_counted(*sides, policy)
    return found


@quick
@given(counts, counts, deltas)
def test_swapping_the_sides_turns_the_verdict(before: int, after: int, delta: float):
    one, other = judged(before, after, delta), judged(after, before, delta)
    assert other.verdict is MIRROR[one.verdict]
    assert (one.effect is None) == (other.effect is None)
    assert one.effect is None or one.effect == -(other.effect or 0.0)


@quick
@given(counts, st.integers(1, 1000))
def test_a_single_one_more_is_never_missed(count: int, more: int):
    assert judged(count, count + more).verdict is Verdict.REGRESSION
    assert judged(count, count).verdict is Verdict.NO_CHANGE


@quick
@given(counts, counts)
def test_a_larger_tolerance_calls_no_more_changes(before: int, after: int):
    verdicts = [judged(before, after, delta).verdict for delta in (0.0, 0.01, 0.5)]
    are_unchanged = [verdict is Verdict.NO_CHANGE for verdict in verdicts]
    assert are_unchanged == sorted(are_unchanged)
