"""What `paceline compare --watch` tells a script. The first that applies."""

from enum import IntEnum

from service.domain import Verdict


class ExitCode(IntEnum):
    """Exit codes of the command line; documented in --help and kept stable."""

    OK = 0
    REGRESSION = 1
    USAGE = 2
    NO_VERDICT = 3
    NOT_ALLOWED = 4
    RUN_FAILED = 5
    NOT_COMPARABLE = 6


_OF_VERDICT = {
    Verdict.REGRESSION: ExitCode.REGRESSION,
    Verdict.BROKEN: ExitCode.REGRESSION,
    Verdict.INCOMPARABLE: ExitCode.NOT_COMPARABLE,
    Verdict.MISSING: ExitCode.NO_VERDICT,
    Verdict.INVALID: ExitCode.NO_VERDICT,
    Verdict.INCONCLUSIVE: ExitCode.NO_VERDICT,
    Verdict.IMPROVEMENT: ExitCode.OK,
    Verdict.NO_CHANGE: ExitCode.OK,
}


def exit_code(verdict: Verdict | None) -> ExitCode:
    """Exit code of a run's verdict; None stands for a run that failed or was cancelled."""
    return ExitCode.RUN_FAILED if verdict is None else _OF_VERDICT[verdict]
