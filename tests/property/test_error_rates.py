"""Seeded simulations: how often the procedure errs, and that it finds what is there."""

import numpy as np
import pytest

from benchmarks.error_rates import (
    DELTA,
    IMPROVEMENT,
    INCONCLUSIVE,
    NO_CHANGE,
    REGRESSION,
    judge,
    pairs,
)
from service.domain import LOOKS, Policy, Rule, Verdict
from service.stats.compare import compare
from service.stats.looks import ALPHA_CHANGE, ALPHA_NO_CHANGE
from service.stats.pairs import PairEffects

REPLICATIONS = 20_000
SDS = (0.003, 0.01, 0.02, 0.04)
CODES = {
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
    Verdict.NO_CHANGE: NO_CHANGE,
    Verdict.REGRESSION: REGRESSION,
    Verdict.IMPROVEMENT: IMPROVEMENT,
}
# All three gate at δ = 2 %, as in `judge`; the sign is where their larger value is worse.
SIGNS = {"step_time_s": 1, "tokens_per_s": -1, "peak_rss_bytes": 1}
POLICY = Policy(metrics={name: Rule(min_effect=0.02, gate=True) for name in SIGNS})


def at_most(alpha, replications=REPLICATIONS):
    """The level and three standard errors of the simulation."""
    return alpha + 3 * np.sqrt(alpha * (1 - alpha) / replications)


@pytest.fixture
def rng():
    return np.random.default_rng(20261130)


@pytest.mark.parametrize("sd", SDS)
def test_the_vectorised_twin_is_the_engine(rng, sd):
    effects = np.concatenate(
        [pairs(rng, 15, (truth, 0.0, truth / 2), sd) for truth in (0.0, DELTA, -0.03)]
    )
    twin = judge(effects)
    for row, replication in enumerate(effects):
        measured = [
            PairEffects(
                str(i), {name: SIGNS[name] * d for name, d in zip(SIGNS, pair, strict=True)}
            )
            for i, pair in enumerate(replication.T)
        ]
        found = {item.metric: item for item in compare(measured, POLICY)}
        assert [CODES[found[name].verdict] for name in SIGNS] == list(twin.verdict[row])
        assert [found[name].decided_at or 0 for name in SIGNS] == list(twin.decided_at[row])


@pytest.mark.parametrize("sd", SDS)
def test_false_changes_are_rare_without_a_change(rng, sd):
    outcome = judge(pairs(rng, REPLICATIONS, (0.0,), sd))
    assert outcome.rate(REGRESSION) <= at_most(ALPHA_CHANGE)
    assert outcome.rate(IMPROVEMENT) <= at_most(ALPHA_CHANGE)


@pytest.mark.parametrize("sd", SDS)
def test_a_change_of_delta_is_rarely_called_none(rng, sd):
    outcome = judge(pairs(rng, REPLICATIONS, (DELTA,), sd))
    assert outcome.rate(NO_CHANGE) <= at_most(ALPHA_NO_CHANGE)


@pytest.mark.parametrize("sd", [0.003, 0.01])
def test_changes_are_found_where_the_spread_is_at_most_half_of_delta(rng, sd):
    slower = judge(pairs(rng, 5_000, (DELTA,), sd))
    assert slower.rate(REGRESSION) > 0.98
    assert slower.mean_pairs() < 8
    same = judge(pairs(rng, 5_000, (0.0,), sd))
    assert same.rate(NO_CHANGE) > 0.98
    assert same.mean_pairs() < 8


def test_a_large_change_is_found_in_large_noise(rng):
    assert judge(pairs(rng, 5_000, (0.05,), 0.027)).rate(REGRESSION) > 0.99


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("sd", [0.02, 0.04])
def test_three_metrics_err_together_no_more_than_one(rng, sd, correlation):
    outcome = judge(pairs(rng, REPLICATIONS, (0.0, 0.0, 0.0), sd, correlation))
    assert outcome.family_rate(REGRESSION) <= at_most(ALPHA_CHANGE)
    assert outcome.family_rate(IMPROVEMENT) <= at_most(ALPHA_CHANGE)


def test_a_true_regression_does_not_loosen_the_others(rng):
    outcome = judge(pairs(rng, REPLICATIONS, (0.1, 0.0, 0.0), 0.04))
    assert (outcome.verdict[:, 0] == REGRESSION).mean() > 0.99
    others = (outcome.verdict[:, 1:] == REGRESSION).any(axis=1).mean()
    assert others <= at_most(ALPHA_CHANGE)


def test_the_run_passes_by_mistake_no_more_often_than_one_metric(rng):
    # A pass claims no change of every gating metric: no correction is needed for it.
    outcome = judge(pairs(rng, REPLICATIONS, (DELTA, 0.0, 0.0), 0.01))
    passed = (outcome.verdict == NO_CHANGE).all(axis=1).mean()
    assert passed <= at_most(ALPHA_NO_CHANGE)


def test_heavy_tails_do_not_raise_the_alarm(rng):
    for sd in (0.02, 0.04):
        outcome = judge(pairs(rng, REPLICATIONS, (0.0,), sd, degrees=4))
        assert outcome.rate(REGRESSION) <= at_most(ALPHA_CHANGE)


def test_the_interval_covers_the_truth_at_all_looks(rng):
    policy = Policy(max_pairs=LOOKS[-1])
    truth, misses = 0.01, 0
    for effects in pairs(rng, 600, (truth,), 0.02)[:, 0]:
        measured = [PairEffects(str(i), {"step_time_s": d}) for i, d in enumerate(effects)]
        (comparison,) = compare(measured, policy)
        misses += any(not look.low <= truth <= look.high for look in comparison.looks)
    assert misses / 600 <= at_most(0.05, 600)
