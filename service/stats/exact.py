"""Did this change eat more device memory? A threshold, since an allocator's peaks hardly vary.

A t test on equal values divides by zero; on nearly equal ones it would flag a kilobyte.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from service.domain import Rule, Verdict
from service.metrics import metric_named
from service.stats.comparison import MetricComparison
from service.stats.pairs import ratio_effect
from service.stats.words import count, fraction_percent, mebibytes, percent

ALGORITHM = "exact-threshold"
VERSION = 1
MIN_TRIALS = 3
MIN_CHANGE_BYTES = 64 * 2**20


def compare_exact(
    metric: str, baseline: Sequence[float], candidate: Sequence[float], rule: Rule
) -> MetricComparison:
    """Comparison of the values of solo trials in bytes, one a trial.

    `low` and `high` span the trials; they are no confidence interval. Fewer than 3 trials a side
    are `inconclusive`.
    """
    num_trials = min(len(baseline), len(candidate))
    common: dict[str, Any] = {
        "metric": metric,
        "is_gating": rule.gate,
        "min_effect": rule.min_effect,
        "num_pairs": num_trials,
        "parameters": {
            "algorithm": ALGORITHM,
            "version": VERSION,
            "min_effect": rule.min_effect,
            "min_change_bytes": MIN_CHANGE_BYTES,
            "min_trials": MIN_TRIALS,
        },
    }
    if num_trials < MIN_TRIALS:
        return MetricComparison(
            **common,
            verdict=Verdict.INCONCLUSIVE,
            reasons=(f"{count(num_trials, 'solo trial')} a side; the rule needs {MIN_TRIALS}.",),
            pairs_to_go=MIN_TRIALS - num_trials,
        )
    verdict, reason = _judge(metric, baseline, candidate, rule)
    before, after = median(baseline), median(candidate)
    effect, change = ratio_effect(before, after), mebibytes(after - before, sign="+")
    observed = (
        f"{metric_named(metric).title} {percent(effect)} ({change}), {num_trials} trials a side."
    )
    is_open = verdict is Verdict.INCONCLUSIVE
    return MetricComparison(
        **common,
        verdict=verdict,
        effect=effect,
        low=ratio_effect(max(baseline), min(candidate)),
        high=ratio_effect(min(baseline), max(candidate)),
        decided_at=None if is_open else num_trials,
        reasons=(observed, reason),
        pairs_to_go=None if is_open else 0,
    )


def _judge(
    metric: str, baseline: Sequence[float], candidate: Sequence[float], rule: Rule
) -> tuple[Verdict, str]:
    """The rule: the medians differ by more than δ and 64 MiB, and the trials agree on the sign.

    They agree if every candidate trial lies on the same side of every baseline trial.
    """
    limit = f"{fraction_percent(rule.min_effect)} or {mebibytes(MIN_CHANGE_BYTES)}"
    before, after = median(baseline), median(candidate)
    is_far = abs(ratio_effect(before, after)) > rule.log_min_effect
    if not is_far or abs(after - before) <= MIN_CHANGE_BYTES:
        return Verdict.NO_CHANGE, f"No change: the medians differ by no more than {limit}."
    if max(baseline) >= min(candidate) and max(candidate) >= min(baseline):
        return Verdict.INCONCLUSIVE, f"The medians differ by more than {limit}, but trials overlap."
    is_worse = metric_named(metric).worse_sign * (after - before) > 0
    verdict = Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT
    article = "A" if is_worse else "An"
    return verdict, (
        f"{article} {verdict}: the medians differ by more than {limit}, whichever is larger, "
        "and every trial of one side lies above every trial of the other."
    )
