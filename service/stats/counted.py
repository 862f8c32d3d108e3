"""Did this change cost more operations, bytes or collectives? Counts, compared as they are.

They are the same at every count of the same code, so there is nothing to repeat and nothing to
test: a difference is a change. docs/method.md tells what counts cannot see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.domain import Policy, Rule, Verdict
from service.metrics import metric_named, ordered
from service.stats.comparison import MetricComparison, unmeasured
from service.stats.pairs import ratio_effect
from service.stats.words import change, fraction_percent, percent, quantities

ALGORITHM = "counted"
VERSION = 1
_MAX_OPERATORS = 10

Calls = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was counted of a side, by metric; how often it calls each operator; and whose torch."""

    values: Mapping[str, float]
    operators: Mapping[str, int] = field(default_factory=dict)
    torch: str | None = None

    def of(self, metric: str) -> float | None:
        """Its count: 0 of a kind that does not occur, None where nobody counted."""
        return self.values.get(metric, 0 if "@" in metric else None)


def compare_counted(baseline: Counts, candidate: Counts, policy: Policy) -> list[MetricComparison]:
    """Comparisons of every count that either side has and that is judged.

    `effect` is a log ratio, None where one side has 0 and the other has not. `low` and `high` are
    None: a count has no interval. What only one side counted is `missing`.
    """
    found = []
    for name in ordered(baseline.values.keys() | candidate.values.keys()):
        rule, before, after = policy.rule(name), baseline.of(name), candidate.of(name)
        if rule is None:
            continue
        if before is not None and after is not None:
            found.append(_comparison(name, rule, before, after, baseline, candidate))
        elif rule.gate:
            found += unmeasured(Verdict.MISSING, _absence(name, before), policy, [name])
    return found


def differing(baseline: Mapping[str, int], candidate: Mapping[str, int]) -> list[Calls]:
    """Operators whose calls differ: name, baseline's, candidate's; the largest difference first."""
    names = baseline.keys() | candidate.keys()
    both = [(name, baseline.get(name, 0), candidate.get(name, 0)) for name in names]
    return sorted(
        [(name, before, after) for name, before, after in both if before != after],
        key=lambda calls: (-abs(calls[2] - calls[1]), calls[0]),
    )


def _comparison(
    metric: str, rule: Rule, before: float, after: float, baseline: Counts, candidate: Counts
) -> MetricComparison:
    verdict, effect = _judge(metric, rule, before, after)
    operators = differing(baseline.operators, candidate.operators)
    return MetricComparison(
        metric=metric,
        is_gating=rule.gate,
        min_effect=rule.min_effect,
        verdict=verdict,
        effect=effect,
        num_pairs=1,
        decided_at=1,
        pairs_to_go=0,
        reasons=(
            _observed(metric, before, after, effect),
            *_tolerance(rule, verdict, before, after),
            *_operators(operators),
            *_torch(baseline, candidate),
        ),
        parameters=_parameters(rule, operators, baseline, candidate),
    )


def _judge(metric: str, rule: Rule, before: float, after: float) -> tuple[Verdict, float | None]:
    """Verdict and effect: any difference is a change, unless the policy tolerates its size."""
    if before == after:
        return Verdict.NO_CHANGE, 0.0
    effect = ratio_effect(before, after) if before and after else None
    less, more = sorted((before, after))
    if more <= (1 + rule.min_effect) * less:
        return Verdict.NO_CHANGE, effect
    is_worse = metric_named(metric).worse_sign * (after - before) > 0
    return Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT, effect


def _observed(metric: str, before: float, after: float, effect: float | None) -> str:
    """`Collectives, all gather: 65 before, 66 now (+1, +1.5 %).`"""
    metric_ = metric_named(metric)
    told_before, told_after = quantities(before, after, metric_.unit)
    if before == after:
        return f"{metric_.title}: {told_after} on both sides."
    ratio = "" if effect is None else f", {percent(effect)}"
    difference = change(after - before, metric_.unit)
    return f"{metric_.title}: {told_before} before, {told_after} now ({difference}{ratio})."


def _tolerance(rule: Rule, verdict: Verdict, before: float, after: float) -> list[str]:
    if verdict is not Verdict.NO_CHANGE or before == after:
        return []
    return [f"No change: the policy tolerates {fraction_percent(rule.min_effect)}."]


def _operators(operators: Sequence[Calls]) -> list[str]:
    """The operators that differ most: what to look for in the diff."""
    if not operators:
        return []
    named = [f"{name}: {before} -> {after}" for name, before, after in operators[:_MAX_OPERATORS]]
    num_more = len(operators) - len(named)
    more = f", and {num_more} more" if num_more else ""
    return [f"Calls of operators that differ: {', '.join(named)}{more}."]


def _torch(baseline: Counts, candidate: Counts) -> list[str]:
    if baseline.torch == candidate.torch:
        return []
    return [
        f"The sides have different versions of torch, {baseline.torch or 'none'} and "
        f"{candidate.torch or 'none'}: it may count or do the same thing in another way."
    ]


def _parameters(
    rule: Rule, operators: Sequence[Calls], baseline: Counts, candidate: Counts
) -> dict[str, Any]:
    """What the verdict depends on besides the two counts, and what explains it."""
    return {
        "algorithm": ALGORITHM,
        "version": VERSION,
        "min_effect": rule.min_effect,
        "torch": [baseline.torch, candidate.torch],
        "operators": [list(calls) for calls in operators[:_MAX_OPERATORS]],
        "num_operators_differing": len(operators),
    }


def _absence(metric: str, before: float | None) -> str:
    """Which side has no count: a program that stops counting does not do nothing."""
    role, other = ("baseline", "candidate") if before is None else ("candidate", "baseline")
    return f"The {role} counted no {metric}; the {other} did."
