import json
import math

import pytest
from scipy import stats

from service.domain import LOOKS, Kind, Policy, Rule, Verdict
from service.stats.compare import compare, is_settled, unmeasured
from service.stats.comparison import expected
from service.stats.pairs import PairEffects
from service.stats.spending import levels, sequential_p

DELTA = math.log(1.02)
NOISY = [0.03, -0.02, 0.04, -0.03, 0.05, -0.01, 0.02, 0.00]


def measured(**effects):
    """Pairs from one list of effects per metric."""
    lists = zip(*effects.values(), strict=True)
    return [
        PairEffects(str(i), dict(zip(effects, row, strict=True))) for i, row in enumerate(lists)
    ]


def judged(*effects, policy=None):
    """The comparison of these effects on the step time."""
    (comparison,) = compare(measured(step_time_s=effects), policy or Policy())
    return comparison


def by_metric(pairs, policy=None):
    return {item.metric: item for item in compare(pairs, policy or Policy())}


def test_a_clear_slowdown_is_a_regression_at_the_first_look():
    comparison = judged(0.10, 0.11, 0.12)
    assert comparison.verdict is Verdict.REGRESSION
    assert comparison.decided_at == comparison.num_pairs == 3
    assert comparison.pairs_to_go == 0
    assert comparison.effect == pytest.approx(0.11)


def test_a_clear_speed_up_is_an_improvement():
    assert judged(-0.10, -0.11, -0.12).verdict is Verdict.IMPROVEMENT


def test_higher_is_better_for_throughput():
    pairs = measured(tokens_per_s=[-0.10, -0.11, -0.12], step_time_s=[0.10, 0.11, 0.12])
    assert {item.verdict for item in compare(pairs, Policy())} == {Verdict.REGRESSION}


def test_steady_pairs_show_no_change():
    comparison = judged(0.001, -0.001, 0.0005)
    assert comparison.verdict is Verdict.NO_CHANGE
    assert comparison.looks[0].verdict is Verdict.NO_CHANGE


def test_p_values_are_those_of_scipy():
    effects = [0.010, 0.002, 0.013, -0.004, 0.006]
    look = judged(*effects).looks[1]
    assert look.p_regression == pytest.approx(
        stats.ttest_1samp(effects, 0, alternative="greater").pvalue
    )
    assert look.p_improvement == pytest.approx(
        stats.ttest_1samp(effects, 0, alternative="less").pvalue
    )
    tost = [
        stats.ttest_1samp(effects, DELTA, alternative="less").pvalue,
        stats.ttest_1samp(effects, -DELTA, alternative="greater").pvalue,
    ]
    assert look.p_no_change == pytest.approx(max(tost))


def test_the_interval_inverts_the_test_at_the_level_of_the_look():
    effects = [0.010, 0.002, 0.013, -0.004, 0.006]
    comparison = judged(*effects)
    level = levels(LOOKS, 0.025)[1]
    low, high = stats.t.interval(1 - 2 * level, 4, stats.tmean(effects), stats.tsem(effects))
    assert (comparison.low, comparison.high) == pytest.approx((low, high))
    assert (comparison.looks[1].low, comparison.looks[1].high) == pytest.approx((low, high))


def test_between_looks_all_pairs_count_for_the_estimate():
    comparison = judged(0.03, -0.02, 0.04, -0.03)
    assert [look.num_pairs for look in comparison.looks] == [3]
    assert comparison.num_pairs == 4
    assert comparison.effect == pytest.approx(0.005)
    assert comparison.low < comparison.effect < comparison.high


def test_no_change_needs_a_mean_nearer_to_zero_than_to_delta():
    # 1.5 % is well within ±2 % by the TOST alone, and a clear slowdown too.
    comparison = judged(0.0150, 0.0149, 0.0151)
    assert comparison.looks[0].p_no_change < comparison.looks[0].level_no_change
    assert comparison.verdict is Verdict.REGRESSION


def test_a_clear_but_small_slowdown_is_no_change():
    comparison = judged(0.0080, 0.0081, 0.0079)
    assert comparison.looks[0].p_regression < 1e-4
    assert comparison.verdict is Verdict.NO_CHANGE


def test_half_of_delta_belongs_to_the_change():
    assert judged(*[DELTA / 2] * 3).verdict is Verdict.REGRESSION
    assert judged(*[-DELTA / 2] * 3).verdict is Verdict.IMPROVEMENT
    assert judged(*[0.9999 * DELTA / 2] * 3).verdict is Verdict.NO_CHANGE


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(0.0, "no_change"), (0.009, "no_change"), (0.03, "regression"), (-0.03, "improvement")],
)
def test_without_spread_the_limit_decides(shift, verdict):
    comparison = judged(shift, shift, shift)
    assert comparison.verdict == verdict
    assert comparison.low == pytest.approx(shift)
    assert comparison.high == pytest.approx(shift)


def test_noise_is_inconclusive_and_says_what_it_would_take():
    comparison = judged(*NOISY)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.decided_at is None
    assert comparison.pairs_to_go is None
    assert "20 pairs, the policy's, will not do" in comparison.reasons[-1]


def test_pairs_to_go_counts_to_the_look_that_would_decide():
    comparison = judged(0.02, 0.05, 0.03, 0.01, 0.02)
    mean, sd = comparison.looks[-1].mean, comparison.looks[-1].sd
    p_at_8 = stats.t.sf(mean / sd * 8**0.5, 7)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert p_at_8 < levels(LOOKS, 0.025)[2]
    assert comparison.pairs_to_go == 3


@pytest.mark.parametrize("num_pairs", [1, 2])
def test_too_few_pairs_are_inconclusive(num_pairs):
    comparison = judged(*[0.5] * num_pairs)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.pairs_to_go == 3 - num_pairs
    assert comparison.low is None
    assert "the first look is after 3" in comparison.reasons[0]


def test_no_pairs_at_all_still_say_so():
    (comparison,) = compare([], Policy())
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reasons == ("There is no valid pair yet.",)
    assert not is_settled([comparison])


def test_a_policy_without_a_look_is_inconclusive():
    comparison = judged(0.1, 0.1, policy=Policy(max_pairs=2))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.pairs_to_go is None
    assert "too few pairs for a first look" in comparison.reasons[0]


def test_the_last_look_of_a_policy_is_the_end():
    comparison = judged(*NOISY, policy=Policy(max_pairs=9))
    assert comparison.parameters["looks"] == [3, 5, 8]
    assert comparison.reasons[-1] == "The policy's 8 pairs are used up."


def test_a_smaller_policy_spends_its_alpha_earlier():
    short, long = Policy(max_pairs=3), Policy()
    effects = [0.030, 0.044, 0.058]
    assert judged(*effects, policy=short).verdict is Verdict.REGRESSION
    assert judged(*effects, policy=long).verdict is Verdict.INCONCLUSIVE


def test_later_pairs_refine_the_estimate_only():
    comparison = judged(0.10, 0.11, 0.12, -0.3, -0.3)
    assert comparison.verdict is Verdict.REGRESSION
    assert comparison.decided_at == 3
    assert comparison.effect == pytest.approx(-0.054)
    assert [look.verdict for look in comparison.looks] == [Verdict.REGRESSION, None]
    assert "over all 5" in comparison.reasons[-1]


def test_leaving_out_a_pair_replays_the_looks():
    pairs = measured(step_time_s=[0.10, 0.11, 0.12, -0.3, -0.3])
    (comparison,) = compare(pairs[:2] + pairs[3:], Policy())
    assert comparison.verdict is Verdict.INCONCLUSIVE


def test_holm_counts_the_gating_metrics():
    alone = judged(0.0497, 0.056, 0.0623)
    p = sequential_p(LOOKS, [alone.looks[0].p_regression])
    assert 0.025 / 3 < p < 0.025 / 2
    assert alone.verdict is Verdict.REGRESSION
    noise = NOISY[:3]
    two = by_metric(measured(step_time_s=[0.0497, 0.056, 0.0623], tokens_per_s=noise))
    assert two["step_time_s"].verdict is Verdict.REGRESSION
    three = by_metric(
        measured(step_time_s=[0.0497, 0.056, 0.0623], tokens_per_s=noise, peak_rss_bytes=noise)
    )
    assert three["step_time_s"].verdict is Verdict.INCONCLUSIVE
    assert three["step_time_s"].parameters["family_size"] == 3


def test_holm_steps_down_once_the_clearest_is_out():
    borderline, clear = [0.042, 0.051, 0.060], [0.10, 0.101, 0.102]
    p = sequential_p(LOOKS, [judged(*borderline).looks[0].p_regression])
    assert 0.025 / 2 < p < 0.025
    pairs = measured(step_time_s=borderline, tokens_per_s=[-d for d in clear])
    assert {item.verdict for item in compare(pairs, Policy())} == {Verdict.REGRESSION}


def test_a_metric_settled_as_no_change_stays_in_the_family():
    quiet = [0.001, -0.001, 0.0005, 0.5, 0.6]  # what it does later is not evidence any more
    pairs = measured(tokens_per_s=quiet, step_time_s=[0.05, -0.03, 0.06, 0.045, 0.055])
    comparisons = by_metric(pairs)
    assert comparisons["tokens_per_s"].verdict is Verdict.NO_CHANGE
    assert comparisons["tokens_per_s"].decided_at == 3
    assert comparisons["step_time_s"].parameters["family_size"] == 2


def test_metrics_that_do_not_gate_leave_the_gate_alone():
    policy = Policy(metrics={"peak_rss_bytes": Rule(min_effect=0.05, gate=False)})
    pairs = measured(step_time_s=[0.0497, 0.056, 0.0623], peak_rss_bytes=[0.2, 0.21, 0.22])
    comparisons = by_metric(pairs, policy)
    assert comparisons["step_time_s"].parameters["family_size"] == 1
    assert comparisons["step_time_s"].q is None
    memory = comparisons["peak_rss_bytes"]
    assert not memory.is_gating
    assert memory.verdict is Verdict.REGRESSION
    p = sequential_p(LOOKS, [memory.looks[0].p_regression])
    assert memory.q == pytest.approx(2 * p)
    assert is_settled(comparisons.values())


def test_q_tells_a_clear_change_even_where_it_is_too_small_to_matter():
    policy = Policy(metrics={"step_time_s": Rule(min_effect=0.02, gate=False)})
    comparison = judged(0.0080, 0.0081, 0.0079, policy=policy)
    assert comparison.verdict is Verdict.NO_CHANGE
    assert comparison.q < 0.01


def test_tokens_stand_for_throughput_where_there_are_any():
    steps, tokens = [0.0, 0.0, 0.0], [0.1, 0.1, 0.1]
    assert list(by_metric(measured(steps_per_s=steps, tokens_per_s=tokens))) == ["tokens_per_s"]
    assert list(by_metric(measured(steps_per_s=steps))) == ["steps_per_s"]


def test_the_first_throughput_measured_keeps_standing():
    pairs = [PairEffects(str(i), {"steps_per_s": 0.1}) for i in range(3)]
    pairs.append(PairEffects("3", {"steps_per_s": 0.1, "tokens_per_s": 0.1}))
    assert list(by_metric(pairs)) == ["steps_per_s"]


def test_recorded_and_exact_metrics_are_not_tested():
    pairs = measured(
        step_time_s=[0.0] * 3, startup_time_s=[1.0] * 3, peak_allocated_bytes=[1.0] * 3
    )
    assert list(by_metric(pairs)) == ["step_time_s"]


def test_a_metric_missing_from_a_pair_is_looked_at_by_its_own_count():
    pairs = measured(step_time_s=[0.0] * 3, peak_rss_bytes=[0.2, 0.21, 0.22])
    pairs[1] = PairEffects("1", {"step_time_s": 0.0})
    comparisons = by_metric(pairs)
    assert comparisons["step_time_s"].verdict is Verdict.NO_CHANGE
    assert comparisons["peak_rss_bytes"].num_pairs == 2
    assert comparisons["peak_rss_bytes"].verdict is Verdict.INCONCLUSIVE
    assert not is_settled(comparisons.values())


def test_a_regression_says_why():
    observed, change, no_change = judged(0.10, 0.11, 0.12).reasons
    assert observed.startswith("Step time +11.6 % over 3 pairs: 95 % interval +5.8 % to +17.8 %")
    assert change.startswith("A regression: at least 1.0 %, and chance alone does this with p = ")
    assert change.endswith("after paying for the look at 3 pairs; the limit is 0.025.")
    assert no_change == "Not called unchanged: the mean is not within ±1.0 %."


def test_no_change_says_why():
    _, change, no_change = judged(0.001, -0.001, 0.0005).reasons
    assert change.startswith("Not a regression: the mean is within ±1.0 %, half of the smallest")
    assert no_change.startswith("No change: a change of 2.0 % either way is excluded (p = 0.00047")


def test_an_open_metric_says_why():
    _, change, no_change, outlook = judged(0.02, 0.05, 0.03, 0.01, 0.02).reasons
    assert change.startswith("Not called a regression: p = 0.0")
    assert "the looks at 3 and 5 pairs, above the limit of 0.025" in change
    assert no_change == "Not called unchanged: the mean is not within ±1.0 %."
    assert outlook == "If the spread stays, about 3 more pairs will decide."


def test_what_was_decided_by_is_on_record():
    parameters = judged(0.10, 0.11, 0.12).parameters
    assert json.loads(json.dumps(parameters)) == parameters
    assert parameters["algorithm"] == "paired-sequential"
    assert parameters["levels_change"] == list(levels(LOOKS, 0.025))


def test_nothing_is_settled_without_a_gating_metric():
    assert not is_settled([])


def test_unmeasured_covers_what_the_policy_names():
    rule = Rule(min_effect=0.03, gate=False)
    policy = Policy(metrics={"tokens_per_s": rule, "busbw_bytes_per_s": rule})
    names = expected(policy, Kind.MEASURED)
    comparisons = unmeasured(Verdict.BROKEN, "The candidate ran out of memory.", policy, names)
    assert [item.metric for item in comparisons] == ["step_time_s", "tokens_per_s"]
    assert [item.is_gating for item in comparisons] == [True, False]
    assert {item.verdict for item in comparisons} == {Verdict.BROKEN}
    assert comparisons[0].reasons == ("The candidate ran out of memory.",)
    assert is_settled(comparisons)


def test_unmeasured_takes_the_metrics_it_is_told():
    assert unmeasured(Verdict.MISSING, "No GPU.", Policy(), metrics=[]) == []
    comparisons = unmeasured(Verdict.MISSING, "No GPU.", Policy(), metrics=["peak_allocated_bytes"])
    assert [item.metric for item in comparisons] == ["peak_allocated_bytes"]


def test_cases_of_one_run_share_its_error_rate():
    effects = [0.03, 0.05, 0.034, 0.046, 0.04]
    pairs = [PairEffects(str(i), {"step_time_s": d}) for i, d in enumerate(effects)]
    alone = compare(pairs, Policy())[0]
    among_many = compare(pairs, Policy(), num_cases=50)[0]
    assert alone.verdict is Verdict.REGRESSION
    assert among_many.verdict is Verdict.INCONCLUSIVE
    assert among_many.parameters["family_size"] == 50
