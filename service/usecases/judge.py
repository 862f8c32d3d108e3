"""From stored pairs to stored comparisons: read, call the pure engine, write."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from service.db import models, results
from service.domain import Arrangement, MetricPolicy, Policy, Role, Verdict
from service.metrics import THROUGHPUT
from service.stats.compare import MetricComparison, compare, unmeasured
from service.stats.exact import compare_exact
from service.stats.pairs import PairEffects

_UNMEASURED = "unmeasured"


def judge_case(
    session: Session, job_id: UUID, case_id: UUID, policy: Policy, *, num_cases: int, is_final: bool
) -> list[MetricComparison]:
    """Compare the two sides of a case on the pairs recorded so far, and store the comparisons.

    `num_cases` is how many cases the run measures: they share its error rate.
    """
    pairs = [pair for pair in results.pairs(session, job_id, case_id) if not pair.invalid_reason]
    effects = [PairEffects(pair=str(pair.id), effects=pair.effects) for pair in pairs]
    comparisons = compare(effects, policy, num_cases=num_cases)
    trials = [trial for pair in pairs for trial in pair.trials]
    alone = [
        trial for pair in pairs if pair.arrangement is Arrangement.ABBA for trial in pair.trials
    ]
    alone += [t for t in results.solo_trials(session, job_id, case_id) if not t.failure_reason]
    device_memory = policy.metric("peak_allocated_bytes")
    values = _values(alone, "peak_allocated_bytes")
    if device_memory is not None and any(values.values()):
        comparisons.append(_exact(values, device_memory))
    comparisons += _never_measured(comparisons, policy)
    inputs = [str(pair.id) for pair in pairs]
    rows = [_row(job_id, case_id, item, inputs, trials) for item in comparisons]
    results.replace_comparisons(session, job_id, case_id, rows, keep_history=is_final)
    return comparisons


def record_unmeasured(
    session: Session, job_id: UUID, case_id: UUID, policy: Policy, verdict: Verdict, reason: str
) -> None:
    """Store that a case has no measured comparison, and why."""
    comparisons = unmeasured(verdict, reason, policy)
    rows = [_row(job_id, case_id, comparison, [], []) for comparison in comparisons]
    results.replace_comparisons(session, job_id, case_id, rows, keep_history=False)


def _never_measured(found: Sequence[MetricComparison], policy: Policy) -> list[MetricComparison]:
    """Gating metrics that the policy names and no pair measured on both sides: that is no pass."""
    measured = {comparison.metric for comparison in found}
    if measured & set(THROUGHPUT):
        measured |= set(THROUGHPUT)  # one stands for both
    names = [name for name, rule in policy.metrics.items() if rule.gate and name not in measured]
    reason = "No pair measured it on both sides."
    return unmeasured(Verdict.MISSING, reason, policy, names) if names else []


def _exact(values: Mapping[Role, Sequence[float]], policy: MetricPolicy) -> MetricComparison:
    return compare_exact(
        "peak_allocated_bytes", values[Role.BASELINE], values[Role.CANDIDATE], policy
    )


def _values(trials: Sequence[models.Trial], metric: str) -> dict[Role, list[float]]:
    """A metric's value of each trial, per side."""
    found: dict[Role, list[float]] = {role: [] for role in Role}
    for trial in trials:
        found[trial.role].extend(m.median for m in trial.measurements if m.metric == metric)
    return found


def _row(
    job_id: UUID,
    case_id: UUID,
    comparison: MetricComparison,
    inputs: Sequence[str],
    trials: Sequence[models.Trial],
) -> models.Comparison:
    values = _values(trials, comparison.metric)
    parameters = dict(comparison.parameters)
    fields: dict[str, Any] = {
        name: getattr(comparison, name)
        for name in (
            "metric",
            "is_gating",
            "min_effect",
            "verdict",
            "effect",
            "low",
            "high",
            "num_pairs",
            "decided_at",
            "pairs_to_go",
            "q",
        )
    }
    return models.Comparison(
        job_id=job_id,
        case_id=case_id,
        reasons=list(comparison.reasons),
        algorithm=parameters.pop("algorithm", _UNMEASURED),
        version=parameters.pop("version", 1),
        parameters=parameters,
        inputs=list(inputs),
        baseline_value=median(values[Role.BASELINE]) if values[Role.BASELINE] else None,
        candidate_value=median(values[Role.CANDIDATE]) if values[Role.CANDIDATE] else None,
        looks=[models.Look(**asdict(look)) for look in comparison.looks],
        **fields,
    )
