"""One sentence that answers a run's question."""

from collections.abc import Sequence
from typing import Protocol

from service.domain import CANCELLED, Status, Verdict, severity, worst
from service.metrics import Method, metric_named
from service.stats.words import percent

_WORDS = {
    Verdict.REGRESSION: "Regression",
    Verdict.IMPROVEMENT: "Improvement",
    Verdict.NO_CHANGE: "No change",
    Verdict.BROKEN: "Broken",
    Verdict.INCONCLUSIVE: "No verdict",
    Verdict.INVALID: "No verdict: the measurement is invalid",
    Verdict.INCOMPARABLE: "No verdict: the sides are not comparable",
    Verdict.MISSING: "No verdict: not measured",
}


_CHANGES = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


class Judged(Protocol):
    """What a headline needs of a comparison."""

    @property
    def case(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def is_gating(self) -> bool: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def effect(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def min_effect(self) -> float: ...
    @property
    def reasons(self) -> Sequence[str]: ...


def verdict(comparisons: Sequence[Judged]) -> Verdict:
    """What the gating metrics say together; `missing` where none was judged."""
    return worst([item.verdict for item in comparisons if item.is_gating])


def headline(status: Status, failure: str | None, comparisons: Sequence[Judged]) -> str:
    """The sentence. A run without a verdict never reads as one without a regression."""
    if status is Status.FAILED:
        return f"The run failed, so there is no verdict: {failure}"
    if status is Status.CANCELLED:
        return f"{failure or CANCELLED.detail} There is no verdict."
    if status is Status.QUEUED:
        return "The run waits for a worker."
    gating = sorted(
        (item for item in comparisons if item.is_gating), key=lambda item: severity(item.verdict)
    )
    if status is Status.RUNNING:
        if not gating:
            return "The run is being measured; nothing of it is complete yet."
        num_open = sum(item.verdict is Verdict.INCONCLUSIVE for item in gating)
        return f"The run is being measured; {num_open} of {len(gating)} gating metrics are open."
    if not gating:
        return "No gating metric was measured, so there is no verdict."
    lead = gating[0]
    word, metrics = _WORDS[lead.verdict], len(gating)
    if lead.verdict is Verdict.NO_CHANGE:
        if all(_is_count(item) and item.effect == 0 for item in gating):
            return "No change: every gating count is the same on both sides."
        which = "every gating metric is" if metrics > 1 else "the gating metric is"
        widest = max(gating, key=lambda item: abs(item.effect or 0.0))
        return (
            f"No change: {which} within the smallest effect that matters; "
            f"the largest shift was {_figures(widest)}."
        )
    others = sum(item.verdict is lead.verdict for item in gating) - 1
    more = f", and {others} more" if others else ""
    if _is_count(lead) and lead.verdict in _CHANGES:
        return f"{word}: {lead.case}: {lead.reasons[0].removesuffix('.')}{more}."
    if lead.effect is None:
        return f"{word}: {lead.case}: {' '.join(lead.reasons)}"
    return f"{word}: {_figures(lead)}{more}."


def _is_count(item: Judged) -> bool:
    return metric_named(item.metric).method is Method.COUNTED


def _figures(item: Judged) -> str:
    title = metric_named(item.metric).title.lower()
    text = f"{item.case}: {title} {percent(item.effect or 0.0)}"
    if item.low is not None and item.high is not None:
        text += f" [95 % interval {percent(item.low)}, {percent(item.high)}]"
    return f"{text}, δ = {100 * item.min_effect:g} %"
