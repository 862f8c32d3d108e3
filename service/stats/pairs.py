"""What one pair says: d = log candidate - log baseline, per metric. Pairs are the samples."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from service.domain import Arrangement
from service.metrics import Method, metric_named, ordered

STEP_TIME = "step_time_s"


@dataclass(frozen=True)
class PairEffects:
    """Effects of the pair `pair`: metric name -> d. A metric it did not measure is absent."""

    pair: str
    effects: Mapping[str, float]

    def __post_init__(self) -> None:
        for metric, effect in self.effects.items():
            if not math.isfinite(effect):
                raise ValueError(f"pair {self.pair}: the effect on {metric} is {effect}")


def effects(
    arrangement: Arrangement,
    steps_per_turn: int,
    baseline: Mapping[str, ArrayLike],
    candidate: Mapping[str, ArrayLike],
) -> dict[str, float]:
    """d of every judged metric that both sides of a pair measured.

    A side is its samples per metric, without warm-up, those with a value per step in order.
    """
    return {
        name: per_step_effect(arrangement, baseline[name], candidate[name], steps_per_turn)
        if metric_named(name).is_per_step
        else ratio_effect(_median(baseline[name]), _median(candidate[name]))
        for name in ordered(baseline.keys() & candidate.keys())
        if metric_named(name).method is Method.PAIRED
    }


def per_step_effect(
    arrangement: Arrangement,
    baseline_steps: ArrayLike,
    candidate_steps: ArrayLike,
    steps_per_turn: int,
) -> float:
    """d of a metric with a value per step, from the steady steps of both trials in their order."""
    baseline, candidate = np.asarray(baseline_steps), np.asarray(candidate_steps)
    if arrangement is Arrangement.ABBA:
        return abba_effect(baseline, candidate)
    # One side may have taken a turn more when the pair ended.
    num_turns = min(len(baseline), len(candidate)) // steps_per_turn
    shape, length = (num_turns, steps_per_turn), num_turns * steps_per_turn
    turns = [side[:length].reshape(shape).mean(axis=1) for side in (baseline, candidate)]
    return lockstep_effect(*turns)


def lockstep_effect(baseline_turns: ArrayLike, candidate_turns: ArrayLike) -> float:
    """Median over turns of log candidate - log baseline; both hold the times of the same turns."""
    baseline, candidate = _positive(baseline_turns), _positive(candidate_turns)
    if baseline.shape != candidate.shape:
        raise ValueError(f"{baseline.size} baseline turns, {candidate.size} candidate turns")
    return float(np.median(np.log(candidate) - np.log(baseline)))


def abba_effect(baseline_steps: ArrayLike, candidate_steps: ArrayLike) -> float:
    """Log ratio of the median step times of two trials."""
    baseline, candidate = _positive(baseline_steps), _positive(candidate_steps)
    return float(np.median(np.log(candidate)) - np.median(np.log(baseline)))


def ratio_effect(baseline: float, candidate: float) -> float:
    """Log ratio of two single values, such as peaks of memory."""
    baseline_log, candidate_log = np.log(_positive([baseline, candidate]))
    return float(candidate_log - baseline_log)


def _median(values: ArrayLike) -> float:
    return float(np.median(np.asarray(values, dtype=float)))


def _positive(values: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=float)
    if x.size == 0 or not np.all(np.isfinite(x) & (x > 0)):
        raise ValueError("a ratio needs positive, finite values, and at least one a side")
    return x
