import pytest

from dashboards.assets import text
from dashboards.words import FAILURES, INTENTS, STATUSES, VERDICTS, outcome
from service.domain import FailureReason, Intent, Status, Verdict
from tests.unit.dashboards_factories import summary

UNDECIDED = [Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.INCOMPARABLE, Verdict.MISSING]
OUTCOMES = [*VERDICTS.values(), *STATUSES.values()]


def test_everything_that_can_happen_has_words():
    assert set(VERDICTS) == set(Verdict)
    assert set(STATUSES) == set(Status)
    assert set(FAILURES) == set(FailureReason)
    assert set(INTENTS) == set(Intent)


def test_no_two_verdicts_share_word_or_symbol():
    assert len({item.word for item in VERDICTS.values()}) == len(Verdict)
    assert len({item.symbol for item in VERDICTS.values()}) == len(Verdict)


@pytest.mark.parametrize("verdict", UNDECIDED)
def test_the_absence_of_a_verdict_looks_and_reads_unlike_no_change(verdict):
    assert VERDICTS[verdict].style != VERDICTS[Verdict.NO_CHANGE].style
    assert "not “no regression”" in VERDICTS[verdict].advice


def test_every_outcome_has_its_tone_in_the_style_sheet():
    css = text("paceline.css")
    for item in OUTCOMES:
        assert f".{item.style} {{ --tone: var(--{item.style}); }}" in css


def test_every_outcome_says_what_to_do_or_that_nothing_is_to_be_done():
    assert all(item.advice.endswith(".") for item in OUTCOMES)
    assert all(item.words and item.remedy.endswith(".") for item in FAILURES.values())


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.FINISHED])
def test_a_run_that_is_not_finished_stands_for_its_status(status):
    assert outcome(summary(status)) is STATUSES[status]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_finished_run_stands_for_its_verdict(verdict):
    assert outcome(summary(verdict=verdict)) is VERDICTS[verdict]
