"""What a script learns from `paceline compare --watch`."""

import pytest

from service.cli.exit_codes import ExitCode, exit_code
from service.domain import Verdict, worst

EXPECTED = {
    Verdict.BROKEN: 1,
    Verdict.REGRESSION: 1,
    Verdict.INCOMPARABLE: 6,
    Verdict.MISSING: 3,
    Verdict.INVALID: 3,
    Verdict.INCONCLUSIVE: 3,
    Verdict.IMPROVEMENT: 0,
    Verdict.NO_CHANGE: 0,
}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict(verdict: Verdict):
    assert exit_code(verdict) == EXPECTED[verdict]


def test_a_run_without_a_verdict_failed():
    assert exit_code(None) is ExitCode.RUN_FAILED == 5


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([Verdict.INCONCLUSIVE, Verdict.REGRESSION], 1),
        ([Verdict.INCOMPARABLE, Verdict.MISSING], 6),
        ([Verdict.INCOMPARABLE, Verdict.BROKEN], 1),
        ([Verdict.MISSING, Verdict.NO_CHANGE], 3),
        ([Verdict.IMPROVEMENT, Verdict.NO_CHANGE], 0),
        ([], 3),
    ],
)
def test_the_first_that_applies(verdicts: list[Verdict], code: int):
    assert exit_code(worst(verdicts)) == code
