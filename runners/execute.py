"""Executes jobs: claims one, has it measured under a lease, gives it its final status."""

import errno
import logging
import time
from contextlib import suppress

from runners import guard
from runners.lease import Heartbeat
from runners.measure import Measuring
from runners.spec import slot_tag
from runners.worker import Worker
from service.db import leases
from service.db import runs as runs_db
from service.db.session import DATABASE_FAILURES
from service.domain import Failure, FailureReason, Status
from service.errors import Interrupted, LeaseLost, MeasurementFailed, WorkerStopping
from service.logs import bound
from service.usecases import recording, runs

logger = logging.getLogger(__name__)


def execute_jobs(worker: Worker) -> None:
    """Measure queued jobs of the worker's cluster until there is none, or its slot is taken."""
    while not worker.stopping.is_set() and (claim := _claim(worker)) is not None:
        _execute(worker, claim)


def _claim(worker: Worker) -> leases.Claim | None:
    settings = worker.settings
    with worker.transaction() as session:
        claim = leases.claim(session, worker.slot_id, owner=worker.name, lease_s=settings.lease_s)
    if claim is not None:
        logger.info("job %s of run %s claimed by %s", claim.job_id, claim.run_id, worker.name)
    return claim


def _execute(worker: Worker, claim: leases.Claim) -> None:
    started = time.monotonic()
    try:
        with (
            bound(run_id=claim.run_id, job_id=claim.job_id),
            Heartbeat(worker, claim) as heartbeat,
        ):
            # What an earlier holder of the slot left alive would be measured with us.
            num_left = guard.sweep(slot_tag(worker.slot_id), worker.settings.kill_grace_s)
            if num_left:
                logger.warning("job %s: %d processes were left on its slot", claim.job_id, num_left)
            status, failure = _measure(worker, claim, heartbeat)
        with worker.transaction() as session:
            leases.release(session, claim, status, failure)
            runs.settle(session, claim.run_id)
    except LeaseLost as error:
        logger.warning("job %s: %s", claim.job_id, error)
    except (Interrupted, *DATABASE_FAILURES) as error:
        # The lease will run out, the loss be counted, and the job taken up again.
        logger.error("job %s is left to the reconciler: %s", claim.job_id, error)
    except WorkerStopping:
        logger.info("job %s goes back to the queue: the worker stops", claim.job_id)
        with suppress(LeaseLost), worker.transaction() as session:
            leases.hand_back(session, claim)
            runs.settle(session, claim.run_id)
            runs.wake(session)
    else:
        logger.info("job %s %s after %.0f s", claim.job_id, status, time.monotonic() - started)


def _measure(
    worker: Worker, claim: leases.Claim, heartbeat: Heartbeat
) -> tuple[Status, Failure | None]:
    """Measure all cases; the job's final status, with the reason where it was not measured."""
    try:
        with worker.transaction() as session:
            runs_db.mark_started(session, claim.run_id, leases.database_now(session))
        Measuring(worker, claim, heartbeat.check).run()
    except MeasurementFailed as error:
        if error.log:
            _keep_log(worker, claim, error.log)
        is_cancelled = error.failure.reason is FailureReason.CANCELLED
        return (Status.CANCELLED if is_cancelled else Status.FAILED), error.failure
    except (LeaseLost, WorkerStopping, Interrupted, *DATABASE_FAILURES):
        raise
    except Exception as error:
        logger.exception("job %s failed", claim.job_id)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            detail = f"The worker's disk is full ({error}). Free space there, and run again."
            return Status.FAILED, Failure(reason=FailureReason.NO_SPACE, detail=detail)
        detail = "Paceline itself failed; the worker's log has the traceback."
        return Status.FAILED, Failure(reason=FailureReason.INTERNAL, detail=detail)
    return Status.FINISHED, None


def _keep_log(worker: Worker, claim: leases.Claim, log: str) -> None:
    """Store a log of the run; where that fails the run is told without it."""
    try:
        stored = worker.artifacts(claim.run_id).keep_text("setup.txt", log)
    except OSError:
        logger.exception("job %s: its log could not be stored", claim.job_id)
        return
    with worker.transaction() as session:
        leases.fence(session, claim)
        recording.record_log(session, claim.run_id, stored)
