import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain import Policy, Rule, Verdict
from service.stats.compare import compare, is_settled
from service.stats.exact import compare_exact
from service.stats.pairs import PairEffects, abba_effect, lockstep_effect

FLIPPED = {Verdict.REGRESSION: Verdict.IMPROVEMENT, Verdict.IMPROVEMENT: Verdict.REGRESSION}
METRICS = ("step_time_s", "tokens_per_s", "peak_rss_bytes")
MEASURES = (abba_effect, lockstep_effect)

quick = settings(max_examples=40, deadline=None, derandomize=True)

# Spreads from none to large around shifts from none to large, so that every verdict occurs.
effect_lists = st.builds(
    lambda shift, spread, noise: [shift + spread * z for z in noise],
    st.sampled_from([0.0, 0.004, 0.0099, 0.02, -0.02, 0.1]),
    st.sampled_from([0.0, 0.001, 0.01, 0.05]),
    st.lists(st.floats(-2, 2), min_size=1, max_size=22),
)
times = st.lists(st.floats(0.001, 100), min_size=1, max_size=40)


def pairs_of(rows):
    """Pairs of three metrics; each row is (step time, tokens, memory)."""
    return [PairEffects(str(i), dict(zip(METRICS, row, strict=True))) for i, row in enumerate(rows)]


@st.composite
def measurements(draw):
    lists = [draw(effect_lists) for _ in METRICS]
    return pairs_of(zip(*lists, strict=False))


@st.composite
def policies(draw):
    rules = {
        name: Rule(min_effect=draw(st.sampled_from([0.01, 0.02])), gate=draw(st.booleans()))
        for name in METRICS
    }
    return Policy(metrics=rules, max_pairs=draw(st.sampled_from([3, 8, 12, 20])))


def swapped(pairs):
    return [PairEffects(p.pair, {name: -d for name, d in p.effects.items()}) for p in pairs]


@quick
@given(measurements(), policies())
def test_swapping_the_sides_flips_the_verdict(pairs, policy):
    for there, back in zip(compare(pairs, policy), compare(swapped(pairs), policy), strict=True):
        assert back.verdict is FLIPPED.get(there.verdict, there.verdict)
        assert back.decided_at == there.decided_at
        assert back.effect == -there.effect
        assert back.q == there.q
        assert back.pairs_to_go == there.pairs_to_go
        if there.low is not None:
            assert (back.low, back.high) == (-there.high, -there.low)


@quick
@given(measurements(), policies(), st.data())
def test_later_pairs_never_change_a_decision(pairs, policy, data):
    early = compare(pairs[: data.draw(st.integers(1, len(pairs)))], policy)
    late = {item.metric: item for item in compare(pairs, policy)}
    for item in early:
        if item.verdict is not Verdict.INCONCLUSIVE:
            assert late[item.metric].verdict is item.verdict
            assert late[item.metric].decided_at == item.decided_at
    if is_settled(early):
        assert is_settled(late.values())


@quick
@given(measurements(), policies(), st.permutations([0, 1, 2]))
def test_order_within_the_first_look_is_irrelevant(pairs, policy, order):
    if len(pairs) < 3:
        return
    shuffled = [pairs[i] for i in order] + pairs[3:]
    for one, other in zip(compare(pairs, policy), compare(shuffled, policy), strict=True):
        assert other.verdict is one.verdict
        assert other.decided_at == one.decided_at
        assert other.effect == one.effect


@quick
@given(measurements(), policies())
def test_nothing_is_ever_nan_and_everything_has_a_reason(pairs, policy):
    for item in compare(pairs, policy):
        numbers = [item.effect, item.low, item.high, item.q]
        for look in item.looks:
            numbers += [look.low, look.high, look.p_regression, look.p_no_change]
        assert all(math.isfinite(number) for number in numbers if number is not None)
        assert item.reasons
        assert (item.verdict is Verdict.INCONCLUSIVE) == (item.decided_at is None)
        assert (item.pairs_to_go == 0) == (item.decided_at is not None)
        assert item.low is None or item.low <= item.effect <= item.high


@quick
@given(times, st.integers(3, 20), st.sampled_from(MEASURES))
def test_constant_series_are_silent(steps, num_pairs, measure):
    effect = measure(steps, steps)
    pairs = [PairEffects(str(i), {"step_time_s": effect}) for i in range(num_pairs)]
    (comparison,) = compare(pairs, Policy())
    assert comparison.verdict is Verdict.NO_CHANGE
    assert comparison.effect == 0


@quick
@given(st.floats(0.001, 1000), st.sampled_from(MEASURES), st.integers(0, 2**32 - 1))
def test_the_unit_of_time_is_irrelevant(scale, measure, seed):
    rng = np.random.default_rng(seed)
    slower = np.array([[0.0], [0.015]])
    steps = np.exp(slower + rng.normal(0, 0.02, (8, 2, 30)))  # pairs × sides × steps
    one, other = (
        compare(
            [PairEffects(str(i), {"step_time_s": measure(*pair)}) for i, pair in enumerate(values)],
            Policy(),
        )[0]
        for values in (steps, scale * steps)
    )
    assert other.verdict is one.verdict
    assert other.effect == pytest.approx(one.effect, abs=1e-9)


@quick
@given(times, st.randoms(use_true_random=False))
def test_order_of_turns_is_irrelevant(baseline, random):
    candidate = [1.3 * time + 0.01 for time in baseline]
    order = random.sample(range(len(baseline)), len(baseline))
    for measure in MEASURES:
        shuffled = measure([baseline[i] for i in order], [candidate[i] for i in order])
        assert shuffled == measure(baseline, candidate)


@quick
@given(times, st.floats(0.5, 2))
def test_lists_and_arrays_agree(baseline, factor):
    candidate = [factor * time for time in baseline]
    for measure in MEASURES:
        array = measure(np.array(baseline), np.array(candidate))
        assert measure(baseline, candidate) == array == -measure(candidate, baseline)


@quick
@given(
    st.lists(st.integers(2**28, 2**36), min_size=3, max_size=6),
    st.lists(st.integers(2**28, 2**36), min_size=3, max_size=6),
)
def test_swapping_flips_the_exact_rule_too(baseline, candidate):
    rule = Rule(min_effect=0.001, gate=True)
    there = compare_exact("peak_allocated_bytes", baseline, candidate, rule)
    back = compare_exact("peak_allocated_bytes", candidate, baseline, rule)
    assert back.verdict is FLIPPED.get(there.verdict, there.verdict)
    assert back.effect == pytest.approx(-there.effect)
