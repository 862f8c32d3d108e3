"""The outcome for one metric: verdict, effect, and the reasons in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.domain import Kind, Policy, Verdict
from service.metrics import metric_named, ordered
from service.stats.looks import Look

# What a case of a kind always tells, whatever the policy says.
_FIRST = {Kind.MEASURED: "step_time_s", Kind.STATIC: "static_flops"}


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """Baseline against candidate for one metric. Effects are log ratios, candidate over baseline.

    `effect` is the mean over all valid pairs, `low` and `high` its interval; None where nothing was
    measured. `decided_at` counts the pairs at the decision. `pairs_to_go` is about how many more
    a decision takes if the spread stays, None if more than the policy allows. `q` is the false
    discovery rate at which a metric that does not gate is shown as changed.
    """

    metric: str
    is_gating: bool
    min_effect: float
    verdict: Verdict
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    num_pairs: int = 0
    decided_at: int | None = None
    looks: tuple[Look, ...] = ()
    reasons: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    pairs_to_go: int | None = None
    q: float | None = None


def is_settled(comparisons: Iterable[MetricComparison]) -> bool:
    """Whether every gating metric is decided, and there is one."""
    gating = [comparison for comparison in comparisons if comparison.is_gating]
    return bool(gating) and all(c.verdict is not Verdict.INCONCLUSIVE for c in gating)


def expected(policy: Policy, kind: Kind) -> list[str]:
    """Metrics that a case of this kind is judged on at least: its first, and what policy names.

    A rule for what only some workloads tell asks nothing of the others.
    """
    named = [
        name for name in policy.metrics if is_of(kind, name) and not metric_named(name).is_told
    ]
    return ordered([*named, _FIRST[kind]])


def is_of(kind: Kind, metric: str) -> bool:
    """Whether a case of this kind has this metric."""
    return metric_named(metric).is_static is (kind is Kind.STATIC)


def unmeasured(
    verdict: Verdict, reason: str, policy: Policy, metrics: Sequence[str]
) -> list[MetricComparison]:
    """One comparison per metric that says why there is no measurement."""
    rules = {name: policy.rule(name) for name in metrics}
    return [
        MetricComparison(
            metric=name,
            is_gating=rule.gate,
            min_effect=rule.min_effect,
            verdict=verdict,
            reasons=(reason,),
        )
        for name, rule in rules.items()
        if rule is not None
    ]
