"""A run as the page and the report print it: views grouped by case, with figures and marks."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboards import format
from dashboards.diagnosis import DiagnosisSection, diagnosis_section
from dashboards.figures import intervals, trace
from dashboards.figures.theme import Plot
from dashboards.words import FAILURES, STATUSES, VERDICTS, Outcome, outcome
from service.db.views import (
    ComparisonView,
    PairView,
    RunDetail,
    RunSummary,
    SideView,
    Trace,
    TrialView,
)
from service.domain import LOOKS, FailureReason, Intent, Kind, Role, Status, Verdict
from service.stats.headline import verdict


@dataclass(frozen=True, kw_only=True)
class CaseSection:
    """One case. `trace` shows the pair at `shown_pair`; both are None where no pair is valid."""

    name: str
    anchor: str
    outcome: Outcome
    comparisons: Sequence[ComparisonView]
    intervals: Sequence[Plot]
    trace: Plot | None
    shown_pair: int | None
    pairs: Sequence[PairView]
    trials: Sequence[TrialView]
    diagnosis: DiagnosisSection | None

    @property
    def num_failed(self) -> int:
        """Trials that failed by themselves, not only because the other side did."""
        return sum(
            trial.failure_reason not in (None, FailureReason.PEER_FAILED) for trial in self.trials
        )


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A named fact, a text per column. `is_subject` where a difference is what the run is about."""

    name: str
    values: Sequence[str]
    is_subject: bool = False

    @property
    def is_uniform(self) -> bool:
        """Whether all columns agree."""
        return len(set(self.values)) < 2

    @property
    def differs(self) -> bool:
        """Whether the columns disagree where one would want to know."""
        return not (self.is_uniform or self.is_subject)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """One run, whole. `now` is the time at which ages are told."""

    run: RunDetail
    now: datetime
    anchor: str
    outcome: Outcome
    advice: str
    again: str | None
    cases: Sequence[CaseSection]
    sides: Sequence[Fact]
    hard: Sequence[Fact]
    soft: Sequence[Fact]

    @property
    def has_figures(self) -> bool:
        """Whether there is anything to draw."""
        return any(case.intervals or case.trace for case in self.cases)

    @property
    def is_live(self) -> bool:
        """Whether more may come."""
        return not self.run.status.is_final


def run_section(run: RunDetail, traces: Sequence[Trace], *, now: datetime) -> RunSection:
    """The section of a run, with a trace of one pair per case."""
    anchor = f"run-{str(run.id)[:8]}"
    environments = run.environments
    return RunSection(
        run=run,
        now=now,
        anchor=anchor,
        outcome=outcome(run),
        advice=_advice(run),
        again=_again(run),
        cases=[
            _case(run, name, f"{anchor}-case-{number}", traces)
            for number, name in enumerate(_case_names(run), start=1)
        ],
        sides=_side_facts(run),
        hard=_facts([item.hard for item in environments]),
        soft=_facts([item.soft for item in environments]),
    )


def comparison_outcome(comparison: ComparisonView, status: Status) -> Outcome:
    """What stands for a comparison: while the run goes on, an undecided metric is only open."""
    if comparison.verdict is Verdict.INCONCLUSIVE and not status.is_final:
        return Outcome(word="open", symbol="…", style="waiting", advice="")
    return VERDICTS[comparison.verdict]


def _case_names(run: RunDetail) -> list[str]:
    """Cases, worst first, as the comparisons come; then those that have none yet."""
    views: list[ComparisonView | PairView | TrialView]
    views = [*run.comparisons, *run.pairs, *run.trials]
    return list(dict.fromkeys(view.case for view in views))


def _case(run: RunDetail, name: str, anchor: str, traces: Sequence[Trace]) -> CaseSection:
    comparisons = [item for item in run.comparisons if item.case == name]
    pairs = [item for item in run.pairs if item.case == name]
    shown = next((item for item in traces if item.case == name), None)
    plots = [intervals.plot(item, pairs) for item in comparisons if item.is_gating]
    return CaseSection(
        name=name,
        anchor=anchor,
        outcome=_case_outcome(run, comparisons),
        comparisons=comparisons,
        intervals=[plot for plot in plots if plot is not None],
        trace=trace.plot(shown) if shown else None,
        shown_pair=shown.pair if shown else None,
        pairs=pairs,
        trials=[item for item in run.trials if item.case == name],
        diagnosis=next(
            (diagnosis_section(d, comparisons) for d in run.diagnoses if d.case == name), None
        ),
    )


def _case_outcome(run: RunDetail, comparisons: Sequence[ComparisonView]) -> Outcome:
    gating = [item for item in comparisons if item.is_gating]
    if not gating and not run.status.is_final:
        return STATUSES[run.status]
    together = verdict(comparisons)
    lead = next((item for item in gating if item.verdict is together), None)
    return VERDICTS[together] if lead is None else comparison_outcome(lead, run.status)


def _advice(run: RunSummary) -> str:
    advice = outcome(run).advice
    if run.status is Status.CANCELLED and run.failure_reason is FailureReason.SAME_SIDES:
        return "There was nothing to measure."
    if run.status is Status.FAILED and run.failure_reason is not None:
        return f"{advice} {FAILURES[run.failure_reason].remedy}"
    return advice


def _again(run: RunDetail) -> str | None:
    """The command that asks for an undecided run again; None where a command line cannot."""
    if any(side.image or side.environment or side.arguments for side in _sides(run)):
        return None
    if run.budget_device_hours is not None or run.intent is not Intent.GATE:
        return None
    if run.failure_reason is FailureReason.SAME_SIDES:
        return None
    is_undecided = run.verdict in (Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.MISSING)
    if not (is_undecided or run.status in (Status.FAILED, Status.CANCELLED)):
        return None
    revisions = f"{run.baseline.requested}..{run.candidate.requested}"
    verb = "static" if run.kind is Kind.STATIC else "compare"
    command = ["paceline", verb, revisions, "--project", run.project]
    command += [] if run.cluster == "local" else ["--cluster", run.cluster]
    command += [] if run.suite is None else ["--suite", run.suite]
    for case in run.cases or ():
        command += ["--case", case]
    if run.kind is Kind.STATIC:
        return shlex.join(command)
    max_pairs = LOOKS[-1] if run.verdict is Verdict.INCONCLUSIVE else run.max_pairs
    command += [] if max_pairs is None else ["--max-pairs", str(max_pairs)]
    return shlex.join(command)


def _sides(run: RunSummary) -> tuple[SideView, SideView]:
    return run.baseline, run.candidate


def _side_facts(run: RunDetail) -> list[Fact]:
    """What was asked for on each side, the commit it became, and the software it brought."""
    rows: dict[str, list[Any]] = {
        "revision": [side.requested for side in _sides(run)],
        "commit": [side.sha and format.short(side.sha) for side in _sides(run)],
        "subject": [side.subject for side in _sides(run)],
        "author": [side.author for side in _sides(run)],
        "image": [side.image for side in _sides(run)],
        "environment": [side.environment for side in _sides(run)],
        "arguments": [side.arguments for side in _sides(run)],
    }
    asked = [
        Fact(
            name=name,
            values=[format.fact(name, value) for value in values],
            is_subject=name in ("revision", "commit", "subject", "author"),
        )
        for name, values in rows.items()
        if any(values)
    ]
    return asked + _facts([_software(run, role) for role in Role])


def _software(run: RunDetail, role: Role) -> dict[str, Any]:
    """What the trials of a side brought, nested tables flattened; differing values side by side."""
    found: dict[str, dict[str, None]] = {}
    for trial in run.trials:
        if trial.role is role:
            for name, value in _flat(trial.software).items():
                found.setdefault(name, {})[format.fact(name, value)] = None
    return {name: " / ".join(values) for name, values in found.items()}


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return flat


def _facts(tables: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """A row per name found in any table; rows whose columns differ come first."""
    names = dict.fromkeys(name for table in tables for name in table)
    rows = [
        Fact(
            name=format.fact_name(name),
            values=[format.fact(name, table.get(name)) for table in tables],
        )
        for name in names
    ]
    return sorted(rows, key=lambda row: not row.differs)
