import math

import pytest

from service.domain import Arrangement
from service.stats.pairs import (
    PairEffects,
    abba_effect,
    lockstep_effect,
    ratio_effect,
    step_time_effect,
)


def test_lockstep_takes_the_median_of_ratios_not_the_ratio_of_medians():
    baseline, candidate = [1.0, 2.0, 4.0], [1.1, 2.4, 4.4]
    assert lockstep_effect(baseline, candidate) == pytest.approx(math.log(1.1))


def test_lockstep_turns_belong_together():
    with pytest.raises(ValueError, match="3 baseline turns, 2 candidate turns"):
        lockstep_effect([1.0, 1.0, 1.0], [1.0, 1.0])


def test_abba_compares_medians_of_trials_of_any_length():
    assert abba_effect([1.0, 1.0, 9.0], [1.2]) == pytest.approx(math.log(1.2))


def test_ratio_of_two_values():
    assert ratio_effect(100, 105) == pytest.approx(math.log(1.05))


@pytest.mark.parametrize("times", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_times_must_be_positive(times):
    with pytest.raises(ValueError, match="positive"):
        abba_effect([1.0], times)


def test_an_effect_is_a_number():
    with pytest.raises(ValueError, match="pair 3: the effect on step_time_s is nan"):
        PairEffects("3", {"step_time_s": math.nan})


def test_steps_of_a_turn_are_summed_and_a_surplus_turn_is_left_out():
    baseline, candidate = [1.0, 1.0, 2.0, 2.0, 9.0], [1.0, 3.0, 2.0, 2.0]
    effect = step_time_effect(Arrangement.LOCKSTEP, baseline, candidate, steps_per_turn=2)
    assert effect == pytest.approx(math.log(2) / 2)  # turns 2 and 4 against 4 and 4
    apart = step_time_effect(Arrangement.ABBA, baseline, candidate, steps_per_turn=1)
    assert apart == abba_effect(baseline, candidate)
