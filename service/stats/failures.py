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
    """Verdict and reason from how each side failed alone; None where neither did."""
    if baseline is not None:
        return Verdict.MISSING, f"The baseline does not run: {baseline.detail}"
    if candidate is None:
        return None
    if candidate.reason in _BREAKS:
        return Verdict.BROKEN, f"The candidate fails where the baseline runs: {candidate.detail}"
    return Verdict.INVALID, f"The candidate cannot be measured: {candidate.detail}"
