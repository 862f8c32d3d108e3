"""From stored pairs to stored comparisons: read, call the pure engine, write."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from service.db import catalog, models, results
from service.domain import Arrangement, Kind, Policy, Role, Verdict
from service.metrics import Method, covered_by, metric_named, ordered
from service.stats.compare import MetricComparison, compare, unmeasured
from service.stats.comparison import expected, is_of
from service.stats.counted import Counts, compare_counted
from service.stats.exact import compare_exact
from service.stats.pairs import PairEffects

_DEVICE_MEMORY = "peak_allocated_bytes"
_UNMEASURED = "unmeasured"


@dataclass(frozen=True, kw_only=True)
class _Evidence:
    """What a case's usable trials measured: those of its valid pairs, and those that ran alone."""

    kind: Kind
    effects: Sequence[PairEffects]
    in_pairs: Sequence[models.Trial]
    alone: Sequence[models.Trial]

    def values(self, metric: str) -> dict[Role, list[float]]:
        """The metric's value of each trial that it is judged from, per side."""
        method = metric_named(metric).method
        if method is Method.COUNTED:
            told = {role: counts.of(metric) for role, counts in self.counts.items()}
            return {role: [n for n in [told.get(role)] if n is not None] for role in Role}
        return _values(self.alone if method is Method.EXACT else self.in_pairs, metric)

    @property
    def counts(self) -> dict[Role, Counts]:
        """What was counted of the sides; of a side that was counted again, the last time."""
        return {trial.role: _counts(trial) for trial in self.alone}

    @property
    def reported(self) -> set[str]:
        """Metrics of the trials of valid pairs."""
        return {m.metric for trial in self.in_pairs for m in trial.measurements}


def judge_case(
    session: Session, job_id: UUID, case_id: UUID, policy: Policy, *, num_cases: int, is_final: bool
) -> list[MetricComparison]:
    """Compare the two sides of a case on the pairs recorded so far, and store the comparisons.

    `num_cases` is how many cases the run measures: they share its error rate.
    """
    evidence = _evidence(session, job_id, case_id)
    comparisons = _compare(evidence, policy, num_cases)
    rows = [_row(job_id, case_id, item, evidence) for item in comparisons]
    results.replace_comparisons(session, job_id, case_id, rows, keep_history=is_final)
    return comparisons


def record_unmeasured(
    session: Session,
    job_id: UUID,
    case_id: UUID,
    policy: Policy,
    verdict: Verdict,
    reason: str,
    *,
    num_cases: int,
) -> None:
    """Store that nothing more of a case can be measured, and why: what is open gets `verdict`.

    A metric that the valid pairs have decided keeps its own, for the first decision binds.
    """
    evidence = _evidence(session, job_id, case_id)
    found = _compare(evidence, policy, num_cases)
    names = [item.metric for item in found if item.verdict is Verdict.INCONCLUSIVE]
    comparisons = [item for item in found if item.metric not in names]
    comparisons += unmeasured(verdict, reason, policy, names)
    rows = [_row(job_id, case_id, item, evidence) for item in comparisons]
    results.replace_comparisons(session, job_id, case_id, rows, keep_history=False)


def _evidence(session: Session, job_id: UUID, case_id: UUID) -> _Evidence:
    pairs = [pair for pair in results.pairs(session, job_id, case_id) if not pair.invalid_reason]
    solo = [t for t in results.solo_trials(session, job_id, case_id) if not t.failure_reason]
    case = catalog.case_of(session, case_id)
    abba = [pair for pair in pairs if pair.arrangement is Arrangement.ABBA]
    return _Evidence(
        kind=case.kind,
        effects=[PairEffects(pair=str(pair.id), effects=pair.effects) for pair in pairs],
        in_pairs=[trial for pair in pairs for trial in pair.trials],
        alone=[trial for pair in abba for trial in pair.trials] + solo,
    )


def _compare(evidence: _Evidence, policy: Policy, num_cases: int) -> list[MetricComparison]:
    """Comparisons of what both sides measured, and of what gates and is missing."""
    if evidence.kind is Kind.STATIC:
        return _compare_counts(evidence.counts, policy)
    compared = compare(evidence.effects, policy, num_cases=num_cases)
    found = {comparison.metric: comparison for comparison in compared}
    rule, values = policy.rule(_DEVICE_MEMORY), evidence.values(_DEVICE_MEMORY)
    if rule is not None and all(values.values()):
        found[_DEVICE_MEMORY] = compare_exact(
            _DEVICE_MEMORY, values[Role.BASELINE], values[Role.CANDIDATE], rule
        )
    return [*found.values(), *_missing(found, evidence, policy)]


def _compare_counts(counts: Mapping[Role, Counts], policy: Policy) -> list[MetricComparison]:
    """Comparisons of what was counted, once it was of both sides."""
    if len(counts) < len(Role):
        names = expected(policy, Kind.STATIC)
        return unmeasured(Verdict.INCONCLUSIVE, "Not both sides are counted yet.", policy, names)
    return compare_counted(counts[Role.BASELINE], counts[Role.CANDIDATE], policy)


def _counts(trial: models.Trial) -> Counts:
    """What a trial counted, and the torch of its side."""
    return Counts(
        values={m.metric: m.median for m in trial.measurements},
        operators=trial.operators or {},
        torch=trial.software.get("versions", {}).get("torch"),
    )


def _missing(
    judged: Collection[str], evidence: _Evidence, policy: Policy
) -> list[MetricComparison]:
    """Gating metrics that are expected, or that a side reported, and not judged: no pass."""
    covered = {covers for name in judged for covers in covered_by(name)}
    found = []
    for name in ordered(evidence.reported.union(expected(policy, Kind.MEASURED)) - covered):
        rule = policy.rule(name)
        is_expected = metric_named(name).stands_in_for is None and is_of(Kind.MEASURED, name)
        if rule is not None and rule.gate and is_expected:
            reason = _absence(name, evidence.values(name))
            found += unmeasured(Verdict.MISSING, reason, policy, [name])
    return found


def _absence(metric: str, values: Mapping[Role, Sequence[float]]) -> str:
    """Which side has no value of a metric; its trainer has to report it as the other's does."""
    where = "solo trial" if metric_named(metric).method is Method.EXACT else "valid pair"
    match [role for role in Role if not values[role]]:
        case []:
            return f"No {where} has the {metric} of both sides."
        case [role]:
            return f"The {role} reported no {metric} in any {where}; the other side did."
        case _:
            return f"Neither side reported its {metric} in a {where}."


def _values(trials: Sequence[models.Trial], metric: str) -> dict[Role, list[float]]:
    """A metric's value of each trial, per side, the baseline first."""
    found: dict[Role, list[float]] = {role: [] for role in Role}
    for trial in trials:
        found[trial.role].extend(m.median for m in trial.measurements if m.metric == metric)
    return found


def _row(
    job_id: UUID,
    case_id: UUID,
    comparison: MetricComparison,
    evidence: _Evidence,
) -> models.Comparison:
    values = evidence.values(comparison.metric)
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
        inputs=[pair.pair for pair in evidence.effects],
        baseline_value=median(values[Role.BASELINE]) if values[Role.BASELINE] else None,
        candidate_value=median(values[Role.CANDIDATE]) if values[Role.CANDIDATE] else None,
        looks=[models.Look(**asdict(look)) for look in comparison.looks],
        **fields,
    )
