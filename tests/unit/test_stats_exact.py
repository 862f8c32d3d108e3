import pytest

from service.domain import Rule, Verdict
from service.stats.exact import compare_exact

GIB = 2**30
MIB = 2**20
RULE = Rule(min_effect=0.001, gate=True)


def judged(baseline, candidate):
    return compare_exact("peak_allocated_bytes", baseline, candidate, RULE)


def test_equal_peaks_are_no_change():
    comparison = judged([8 * GIB] * 3, [8 * GIB] * 3)
    assert comparison.verdict is Verdict.NO_CHANGE
    assert (comparison.effect, comparison.low, comparison.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [(64 * MIB, "no_change"), (65 * MIB, "regression"), (-65 * MIB, "improvement")],
)
def test_on_small_peaks_the_bytes_count(more, verdict):
    assert judged([8 * GIB] * 3, [8 * GIB + more] * 3).verdict == verdict


@pytest.mark.parametrize(("more", "verdict"), [(80 * MIB, "no_change"), (83 * MIB, "regression")])
def test_on_large_peaks_the_ratio_counts(more, verdict):
    # 0.1 % of 80 GiB is 81.9 MiB.
    assert judged([80 * GIB] * 3, [80 * GIB + more] * 3).verdict == verdict


def test_trials_must_agree_on_the_sign():
    comparison = judged([8 * GIB, 8 * GIB, 10 * GIB], [9 * GIB, 9 * GIB, 9 * GIB])
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.pairs_to_go is None
    assert "trials overlap" in comparison.reasons[-1]


def test_three_trials_a_side_are_needed():
    comparison = judged([8 * GIB] * 3, [9 * GIB] * 2)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.pairs_to_go == 1
    assert comparison.reasons == ("2 solo trials a side; the rule needs 3.",)


def test_no_trials_are_no_error():
    assert judged([], [8 * GIB] * 3).verdict is Verdict.INCONCLUSIVE


def test_the_reasons_carry_the_numbers():
    observed, reason = judged([8 * GIB] * 3, [9 * GIB] * 3).reasons
    assert observed == "Peak device memory +12.5 % (+1,024.0 MiB), 3 trials a side."
    assert reason.startswith("A regression: the medians differ by more than 0.10 % or 64.0 MiB")
