"""Stored pairs as the statistics see them."""

import numpy as np
from numpy.typing import NDArray

from service.db import models
from service.domain import Role
from service.metrics import METRICS, Rule
from service.stats.pairs import PairEffects, ratio_effect, step_time_effect

STEP_TIME = "step_time_s"


def effects(pair: models.Pair) -> PairEffects:
    """The d of every judged metric that both trials of a valid pair measured."""
    trials = {trial.role: trial for trial in pair.trials}
    by_role = {role: {m.metric: m for m in trials[role].measurements} for role in Role}
    baseline, candidate = by_role[Role.BASELINE], by_role[Role.CANDIDATE]
    found = {
        name: ratio_effect(baseline[name].median, candidate[name].median)
        for name, metric in METRICS.items()
        if metric.rule is Rule.PAIRED and name in baseline and name in candidate
    }
    if STEP_TIME in found:
        found[STEP_TIME] = step_time_effect(
            pair.arrangement,
            steady_steps(trials[Role.BASELINE], baseline[STEP_TIME]),
            steady_steps(trials[Role.CANDIDATE], candidate[STEP_TIME]),
            pair.steps_per_turn,
        )
    return PairEffects(pair=str(pair.id), effects=found)


def steady_steps(trial: models.Trial, step_time: models.Measurement) -> NDArray[np.float64]:
    """Step times after the warm-up, in seconds."""
    return np.asarray(step_time.samples[trial.num_warmup_steps :], dtype=float)
