"""What every outcome is called, how it is marked, and what to do about it."""

from dataclasses import dataclass

from service.db.views import RunSummary
from service.domain import LOOKS, FailureReason, Intent, Status, Verdict


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A word and a symbol, never a colour alone. `style` names its colour and shape in the CSS:
    a verdict is filled, the absence of one is outlined.
    """

    word: str
    symbol: str
    style: str
    advice: str


VERDICTS = {
    Verdict.REGRESSION: Outcome(
        word="regression",
        symbol="▲",
        style="worse",
        advice="The candidate is worse by more than matters. The reasons are given below; "
        "each trial has a command that reproduces it by hand.",
    ),
    Verdict.BROKEN: Outcome(
        word="broken",
        symbol="✗",
        style="broken",
        advice="The candidate fails where the baseline runs, which gates like a regression. Read "
        "the log of a failed trial below and run its command by hand.",
    ),
    Verdict.IMPROVEMENT: Outcome(
        word="improvement",
        symbol="▼",
        style="better",
        advice="The candidate is better by more than matters. Nothing needs to be done.",
    ),
    Verdict.NO_CHANGE: Outcome(
        word="no change",
        symbol="=",
        style="same",
        advice="For every gating metric a change that matters is excluded. Nothing needs to be "
        "done.",
    ),
    Verdict.INCONCLUSIVE: Outcome(
        word="inconclusive",
        symbol="?",
        style="open",
        advice="This is not “no regression”: the pairs leave both answers open. Ask for more "
        f"pairs (at most {LOOKS[-1]}), measure on a quieter node, or allow a larger δ in "
        "paceline.yml.",
    ),
    Verdict.INVALID: Outcome(
        word="invalid",
        symbol="!",
        style="void",
        advice="This is not “no regression”: the measurements are unusable. Remove the cause named "
        "with the failed trials below, then ask for the run again.",
    ),
    Verdict.INCOMPARABLE: Outcome(
        word="incomparable",
        symbol="≠",
        style="void",
        advice="This is not “no regression”: the hard facts of the two sides differ. Measure both "
        "on the same hardware; the environment table below marks what differs.",
    ),
    Verdict.MISSING: Outcome(
        word="missing",
        symbol="–",
        style="absent",
        advice="This is not “no regression”: nothing was compared, because a side did not run. The "
        "reason is given below; if the baseline is at fault, choose another one.",
    ),
}

STATUSES = {
    Status.QUEUED: Outcome(
        word="queued",
        symbol="…",
        style="waiting",
        advice="It starts as soon as a worker and a slot of its cluster are free.",
    ),
    Status.RUNNING: Outcome(
        word="running",
        symbol="►",
        style="waiting",
        advice="What is shown so far may still change. Nothing moves by itself: reload for more.",
    ),
    Status.FINISHED: Outcome(
        word="finished", symbol="●", style="absent", advice="All cases were measured."
    ),
    Status.FAILED: Outcome(
        word="failed",
        symbol="✗",
        style="failed",
        advice="Nothing is claimed about the change.",
    ),
    Status.CANCELLED: Outcome(
        word="cancelled",
        symbol="∅",
        style="absent",
        advice="Nothing is claimed about the change. Ask for the run again if it still matters.",
    ),
}


def outcome(run: RunSummary) -> Outcome:
    """What stands for a run: its verdict once it has one, until then its status."""
    if run.status is Status.FINISHED and run.verdict is not None:
        return VERDICTS[run.verdict]
    return STATUSES[run.status]


INTENTS = {
    Intent.GATE: "decide whether the change may pass",
    Intent.SCREEN: "look for a suspicion, cheaply",
    Intent.CONFIRM: "confirm a suspicion on other nodes",
    Intent.BISECT: "find the commit that is to blame",
    Intent.CALIBRATE: "measure the false-alarm rate, one revision against itself",
    Intent.EVALUATE: "report intervals; nothing gates",
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure reason in words, and what to do about it."""

    words: str
    remedy: str


_LOG = "Its log has the details."

FAILURES = {
    FailureReason.SOURCE_UNAVAILABLE: Failure(
        words="repository out of reach",
        remedy="Check that the project's source can be cloned from the worker.",
    ),
    FailureReason.UNKNOWN_REVISION: Failure(
        words="unknown revision",
        remedy="Check the spelling, and that the commit was pushed to the project's source.",
    ),
    FailureReason.SAME_SIDES: Failure(
        words="both sides are the same",
        remedy="Name two commits, or sides that differ in their environment or arguments.",
    ),
    FailureReason.BAD_MANIFEST: Failure(
        words="paceline.yml is wrong", remedy="Correct the line and field that the reason names."
    ),
    FailureReason.NO_SUCH_CASE: Failure(
        words="no such case or suite",
        remedy="Name a case or suite of the baseline's paceline.yml.",
    ),
    FailureReason.WORLD_SIZE_TOO_LARGE: Failure(
        words="world size too large",
        remedy="Choose a larger cluster, or a case that needs fewer ranks.",
    ),
    FailureReason.SETUP_FAILED: Failure(
        words="setup failed", remedy="Read the setup log; the commands stand in paceline.yml."
    ),
    FailureReason.WRONG_ORIGIN: Failure(
        words="code from another place",
        remedy="The imported module lies outside the side's worktree; see how setup installs it.",
    ),
    FailureReason.LAUNCH_FAILED: Failure(
        words="could not be launched", remedy="Check that the launcher works on the worker."
    ),
    FailureReason.CRASHED: Failure(words="crashed", remedy=_LOG),
    FailureReason.KILLED: Failure(
        words="killed", remedy="Often the system ran out of memory; see the node's own log."
    ),
    FailureReason.OUT_OF_MEMORY: Failure(
        words="out of memory",
        remedy="A pair in lock-step holds both sides in memory; see whether it runs alone.",
    ),
    FailureReason.STALLED: Failure(
        words="stalled", remedy="It stopped recording steps: a deadlock, or input that never came."
    ),
    FailureReason.DEADLINE: Failure(
        words="ran out of time",
        remedy="Raise the case's timeout_s, or let the trainer stop earlier.",
    ),
    FailureReason.NAN_LOSS: Failure(
        words="loss is not finite", remedy="Such a trainer may be fast for the wrong reason."
    ),
    FailureReason.BAD_RECORDS: Failure(
        words="unreadable records", remedy="See how the trainer writes its records; " + _LOG.lower()
    ),
    FailureReason.NO_STEPS: Failure(
        words="no step recorded", remedy="The trainer must call turns.step() once per step."
    ),
    FailureReason.TOO_FEW_STEPS: Failure(
        words="too few steps", remedy="Let the trainer run longer, or lower warmup_steps."
    ),
    FailureReason.PEER_FAILED: Failure(
        words="ended with the other side", remedy="See the other trial of this pair."
    ),
    FailureReason.CANCELLED: Failure(words="cancelled", remedy="Ask for the run again."),
    FailureReason.LEASE_LOST: Failure(
        words="worker lost",
        remedy="It was taken up again several times; the worker's machine and log tell more.",
    ),
    FailureReason.NO_SPACE: Failure(
        words="disk full", remedy="Free space on the worker's machine and run again."
    ),
    FailureReason.INTERNAL: Failure(
        words="Paceline itself failed",
        remedy="The service's log has the traceback; please report it.",
    ),
}
