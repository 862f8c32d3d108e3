"""What it means when a side fails. A failure of the baseline says nothing about the candidate."""

from service.domain import Failure, FailureReason, Verdict

# Failures of the program. The others say that it could not be measured, which gates nothing.
_BREAKS = {
    FailureReason.CRASHED,
    FailureReason.KILLED,
    FailureReason.OUT_OF_MEMORY,
    FailureReason.STALLED,
    FailureReason.DEADLINE,
    FailureReason.NAN_LOSS,
}


def verdict_of_failures(
    baseline: Failure | None, candidate: Failure | None
) -> tuple[Verdict, str] | None:
    """Verdict and reason after a side failed in a pair and was tried alone; None where both ran."""
    if baseline is not None:
        return Verdict.MISSING, f"The baseline does not run: {baseline.detail}"
    if candidate is None:
        return None
    if candidate.reason in _BREAKS:
        reason = f"The candidate failed in a pair and alone: {candidate.detail}"
        return Verdict.BROKEN, reason
    return Verdict.INVALID, f"The candidate cannot be measured: {candidate.detail}"
