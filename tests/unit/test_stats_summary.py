import math

import numpy as np
import pytest

from benchmarks.error_rates import autoregressive
from service.stats.summary import median_standard_error, num_warmup, summarize


@pytest.mark.parametrize(
    ("num_steps", "warmup_steps", "expected"),
    [
        (50, None, 10),
        (100, None, 10),
        (101, None, 11),
        (400, None, 40),
        (400, 0, 0),
        (400, 25, 25),
        (8, None, 8),
        (8, 20, 8),
    ],
)
def test_num_warmup(num_steps, warmup_steps, expected):
    assert num_warmup(num_steps, warmup_steps) == expected


def test_summary_by_hand():
    summary = summarize([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (summary.n, summary.median, summary.mean, summary.mad) == (5, 3.0, 22.0, 1.0)
    assert summary.p05 == pytest.approx(1.2)
    assert summary.p95 == pytest.approx(80.8)


def test_summary_of_nothing_is_a_mistake():
    with pytest.raises(ValueError, match="no value"):
        summarize([])


def test_standard_error_of_a_median_by_hand():
    # n = 100: rank 50.5 - 2.5758 * 5 = 37.6 -> 38, so (x[63] - x[38]) / (2 * 2.5758). The values
    # alternate around the median: negative correlation is not rewarded.
    values = [value for i in range(50) for value in (i, 99 - i)]
    assert median_standard_error(values) == pytest.approx(25 / (2 * 2.5758))


def test_few_values_know_nothing():
    assert median_standard_error([1.0] * 9) == math.inf
    assert median_standard_error([1.0] * 10) == 0.0


def test_a_stall_does_not_move_the_standard_error():
    values = np.random.default_rng(1).standard_normal(200)
    stalled = np.where(values > 2, 1e6, values)
    assert median_standard_error(stalled) == median_standard_error(values)


@pytest.mark.parametrize("coefficient", [0.0, 0.45, 0.7])
def test_standard_error_matches_the_spread_of_medians(coefficient):
    series = autoregressive(np.random.default_rng(2), 1500, 200, coefficient)
    estimate = np.mean([median_standard_error(row) for row in series])
    assert 0.8 < estimate / np.median(series, axis=1).std() < 1.2
