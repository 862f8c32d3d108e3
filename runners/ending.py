"""What a trial's end means: success, or a failure as data."""

import re

from runners.guard import Ended, Outcome
from runners.parsers import torchrun
from service.domain import Failure, FailureReason

# As Python prints it at the end of a traceback; torchrun puts `[rank1]:` before it.
_EXCEPTION = re.compile(
    r"^(?P<whose>(?:\[\w+\]:\s*)*)(?P<words>[\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE
)
_UNPRINTABLE = re.compile("[\0-\x08\x0e-\x1f\ud800-\udfff]")


def exit_code(outcome: Outcome, report: torchrun.Parsed) -> int | None:
    """Of the rank that failed first, else of the whole trial; negative for a signal."""
    return outcome.exit_code if report.exit_code is None else report.exit_code


def failure(outcome: Outcome, log: str, report: torchrun.Parsed) -> Failure | None:
    """What a trial's end says; None where it ended well."""
    match outcome.ended:
        case Ended.EXITED:
            return None if outcome.exit_code == 0 else _exited(outcome, log, report)
        case Ended.NOT_STARTED:
            return Failure(reason=FailureReason.LAUNCH_FAILED, detail=outcome.detail)
        case Ended.DEADLINE:
            detail = f"It was still running after {outcome.wall_s:.0f} s (the case's timeout_s)."
            return Failure(reason=FailureReason.DEADLINE, detail=detail)
        case Ended.STALLED:
            detail = "Its ranks recorded nothing any more."
            return Failure(reason=FailureReason.STALLED, detail=detail)
        case Ended.RELEASED:
            detail = "It was ended together with the other side."
            return Failure(reason=FailureReason.PEER_FAILED, detail=detail)
        case Ended.UNGUARDED:
            return Failure(reason=FailureReason.INTERNAL, detail=outcome.detail)


def _exited(outcome: Outcome, log: str, report: torchrun.Parsed) -> Failure:
    code = exit_code(outcome, report)
    who = "It" if report.rank is None else f"Rank {report.rank}"
    if report.is_out_of_memory:
        detail = f"{who} ran out of memory."
        return Failure(reason=FailureReason.OUT_OF_MEMORY, detail=detail)
    if code == -9:
        detail = f"{who} was killed by signal 9; on Linux often by the out-of-memory killer."
        return Failure(reason=FailureReason.KILLED, detail=detail)
    how = (
        f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with {code}"
    )
    words = last_words(log, report.rank) or ("" if report.rank is not None else _last_line(log))
    if "No module named 'workloads" in words:
        words += " (The project has a `workloads` of its own: vendor turns.py and records.py.)"
    return Failure(reason=FailureReason.CRASHED, detail=f"{who} {how}. {words}".rstrip())


def last_words(log: str, rank: int | None) -> str:
    """The exception that the rank's Python printed first, if any.

    torch tells whose words they are once the ranks have met; those of peers follow from its end.
    """
    program = log.partition("torch.distributed.elastic.multiprocessing.errors.ChildFailedError")[0]
    for found in _EXCEPTION.finditer(program):
        if "[rank" not in found["whose"] or rank is None or f"[rank{rank}]" in found["whose"]:
            return _printable(found["words"])
    return ""


def _last_line(log: str) -> str:
    """What a program says as it ends by itself, without a traceback."""
    return _printable(log.rstrip().rpartition("\n")[2])


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:300])
