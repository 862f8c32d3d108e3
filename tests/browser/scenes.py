"""One stored run for every outcome a page must show, by name."""

from uuid import UUID

from sqlalchemy.orm import Session

from service.db import models
from service.domain import CANCELLED, FailureReason, Status, Verdict
from tests.browser.rows import HOSTILE, Bench


def store_all(session: Session) -> dict[str, UUID]:
    """Ids of the stored runs; the first named is the oldest."""
    bench = Bench(session)
    makers = {
        "failed": _failed,
        "cancelled": _cancelled,
        "missing": _missing,
        "invalid": _invalid,
        "broken": _broken,
        "inconclusive": lambda bench: _measured(bench, 0.012, 20, 0.03, "Fuse the optimizer"),
        "no_change": lambda bench: _measured(bench, 0.0004, 5, 0.002, "Rename the loader"),
        "improvement": lambda bench: _measured(bench, -0.061, 5, 0.004, "Overlap the all-reduce"),
        "regression": _regression,
        "running": lambda bench: _measured(
            bench, 0.015, 4, 0.012, "Pin the loader's memory", status=Status.RUNNING
        ),
        "queued": lambda bench: bench.run(Status.QUEUED, subject=HOSTILE),
    }
    return {name: make(bench).id for name, make in makers.items()}


def _measured(
    bench: Bench,
    effect: float,
    num_pairs: int,
    spread: float,
    subject: str,
    status: Status = Status.FINISHED,
) -> models.Run:
    run = bench.run(status, subject=subject)
    bench.measure(run, bench.case(run), effect, num_pairs, spread)
    return run


def _regression(bench: Bench) -> models.Run:
    """Two cases, one of them worse; a pair of it was disturbed."""
    run = bench.run()
    worse = bench.case(run)
    bench.measure(run, worse, 0.053, 5)
    bench.failed_pair(
        run, worse, 5, FailureReason.STALLED, "Rank 1 was silent for 60 s in its turn."
    )
    bench.measure(run, bench.case(run, "fsdp-2"), 0.0007, 5, spread=0.001)
    return run


def _broken(bench: Bench) -> models.Run:
    run = bench.run(subject="Drop the gradient clipping")
    case = bench.case(run)
    detail = "Rank 1 exited with 1. RuntimeError: shape mismatch in layer 3"
    bench.failed_pair(run, case, 0, FailureReason.CRASHED, detail)
    bench.unmeasured(
        run, Verdict.BROKEN, f"The candidate fails where the baseline runs: {detail}", case
    )
    return run


def _invalid(bench: Bench) -> models.Run:
    run = bench.run(subject="Shorten the example run")
    case = bench.case(run)
    detail = "12 steps, of which 10 are warm-up, leave fewer than the 20 a measurement needs."
    for position in range(3):
        bench.failed_pair(run, case, position, FailureReason.TOO_FEW_STEPS, detail)
    reason = f"All 3 pairs were invalid, the last: candidate: {detail}"
    bench.unmeasured(run, Verdict.INVALID, reason, case)
    return run


def _missing(bench: Bench) -> models.Run:
    run = bench.run(subject="Add the mixture-of-experts trainer")
    bench.unmeasured(run, Verdict.MISSING, "The baseline has no case of this name.")
    return run


def _cancelled(bench: Bench) -> models.Run:
    return bench.run(
        Status.CANCELLED, failure_reason=CANCELLED.reason, failure_detail=CANCELLED.detail
    )


def _failed(bench: Bench) -> models.Run:
    return bench.run(
        Status.FAILED,
        subject="Move to torch 2.13",
        failure_reason=FailureReason.SETUP_FAILED,
        failure_detail="`pip install -e .` exited with 1: no distribution for torch==2.99.",
    )
