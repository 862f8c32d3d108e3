"""The one sentence: no verdict never reads as no regression."""

from dataclasses import dataclass

import pytest

from service.domain import Status, Verdict
from service.stats.headline import headline, verdict


@dataclass(frozen=True, kw_only=True)
class Judged:
    verdict: Verdict
    case: str = "tinylm"
    metric: str = "step_time_s"
    is_gating: bool = True
    effect: float | None = 0.1
    low: float | None = 0.08
    high: float | None = 0.12
    min_effect: float = 0.02
    reasons: tuple[str, ...] = ("Because.",)


def finished(*comparisons: Judged) -> str:
    return headline(Status.FINISHED, None, comparisons)


@pytest.mark.parametrize("kind", list(Verdict))
def test_each_verdict_reads_as_itself(kind: Verdict):
    text = finished(Judged(verdict=kind))
    harmless = kind in (Verdict.NO_CHANGE, Verdict.IMPROVEMENT)
    assert text.startswith("No verdict") == (
        kind in (Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.INCOMPARABLE, Verdict.MISSING)
    )
    assert text.startswith("No change") == (kind is Verdict.NO_CHANGE)
    assert text.startswith(("Regression", "Broken")) == (
        kind in (Verdict.REGRESSION, Verdict.BROKEN)
    )
    assert not harmless or "No verdict" not in text


def test_the_worst_gating_metric_leads():
    others = [Judged(verdict=kind, metric="peak_rss_bytes") for kind in Verdict]
    recorded = Judged(verdict=Verdict.BROKEN, is_gating=False)
    text = finished(Judged(verdict=Verdict.NO_CHANGE), Judged(verdict=Verdict.REGRESSION), recorded)
    assert text.startswith("Regression: tinylm: step time +10.5 %")
    assert "[95 % interval +8.3 %, +12.7 %]" in text
    assert "δ = 2 %" in text
    assert finished(*others).startswith("Broken")


def test_further_metrics_of_the_same_verdict_are_counted():
    twice = Judged(verdict=Verdict.REGRESSION, metric="tokens_per_s", effect=-0.1)
    assert "and 1 more" in finished(Judged(verdict=Verdict.REGRESSION), twice)


def test_no_change_names_the_largest_shift():
    small = Judged(verdict=Verdict.NO_CHANGE, effect=0.001, metric="peak_rss_bytes")
    large = Judged(verdict=Verdict.NO_CHANGE, effect=-0.009)
    text = finished(small, large)
    assert text.startswith("No change: every gating metric is within")
    assert "step time -0.90 %" in text.replace("−", "-")


def test_a_count_is_told_by_its_reason():
    text = finished(
        Judged(
            verdict=Verdict.REGRESSION,
            metric="static_num_graph_breaks",
            effect=None,
            low=None,
            high=None,
            min_effect=0.0,
            reasons=("Graph breaks: 0 before, 3 now (+3).", "Calls of operators that differ."),
        ),
        Judged(verdict=Verdict.REGRESSION),
    )
    assert text == "Regression: tinylm: Graph breaks: 0 before, 3 now (+3), and 1 more."


def test_equal_counts_have_no_largest_shift():
    equal = Judged(verdict=Verdict.NO_CHANGE, metric="static_flops", effect=0.0, min_effect=0.0)
    assert finished(equal) == "No change: every gating count is the same on both sides."
    assert "largest shift was" in finished(equal, Judged(verdict=Verdict.NO_CHANGE))


def test_what_was_not_measured_says_why():
    gone = Judged(verdict=Verdict.MISSING, effect=None, reasons=("The baseline does not run.",))
    assert "The baseline does not run." in finished(gone)


def test_a_run_without_gating_metrics_has_no_verdict():
    only_recorded = Judged(verdict=Verdict.NO_CHANGE, is_gating=False)
    assert "no verdict" in finished(only_recorded)
    assert verdict([only_recorded]) is Verdict.MISSING
    assert "no verdict" in finished()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.QUEUED, "waits for a worker"),
        (Status.RUNNING, "is being measured"),
        (Status.CANCELLED, "The disk is full. There is no verdict."),
        (Status.FAILED, "failed, so there is no verdict: The disk is full."),
    ],
)
def test_an_unfinished_run_has_no_verdict_whatever_was_measured(status: Status, words: str):
    text = headline(status, "The disk is full.", [Judged(verdict=Verdict.NO_CHANGE)])
    assert words in text
    assert "No change" not in text
