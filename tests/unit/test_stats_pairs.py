import math

import pytest

from service.domain import Arrangement
from service.stats.pairs import (
    PairEffects,
    abba_effect,
    effects,
    lockstep_effect,
    per_step_effect,
    ratio_effect,
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


def test_steps_of_a_turn_are_averaged_and_a_surplus_turn_is_left_out():
    baseline, candidate = [1.0, 1.0, 2.0, 2.0, 9.0], [1.0, 3.0, 2.0, 2.0]
    effect = per_step_effect(Arrangement.LOCKSTEP, baseline, candidate, steps_per_turn=2)
    assert effect == pytest.approx(math.log(2) / 2)  # turns 2 and 4 against 4 and 4
    apart = per_step_effect(Arrangement.ABBA, baseline, candidate, steps_per_turn=1)
    assert apart == abba_effect(baseline, candidate)


def test_what_every_step_tells_is_compared_turn_by_turn():
    bus = "busbw_bytes_per_s@1024"
    baseline = {"step_time_s": [1.0, 1.0, 1.0], bus: [1.0, 2.0, 4.0], "data_wait_s": [0.0] * 3}
    candidate = {"step_time_s": [1.0, 1.0, 1.0], bus: [0.9, 1.8, 3.6], "data_wait_s": [0.1] * 3}
    found = effects(Arrangement.LOCKSTEP, 1, baseline, candidate)
    assert found == {"step_time_s": 0.0, bus: pytest.approx(math.log(0.9))}
