"""Executes a job: claims it, has it measured under a lease, and gives it its final status."""

import logging
import time
from contextlib import suppress
from uuid import UUID

from runners.context import Worker
from runners.lease import Heartbeat
from runners.measure import Measuring
from service.db import leases, models
from service.db import runs as runs_db
from service.db.session import transaction
from service.domain import FailureReason, Status
from service.errors import LeaseLost, MeasurementFailed, WorkerStopping
from service.usecases import runs

logger = logging.getLogger(__name__)


def execute_job(job_id: UUID, worker: Worker) -> None:
    """Claim a queued job and measure it; does nothing where it, or a slot, is not to be had."""
    lease_s = worker.settings.lease_s
    with transaction(worker.sessions, worker.send) as session:
        claim = leases.claim(session, job_id, owner=worker.name, lease_s=lease_s)
        if claim is None:
            return
        runs_db.mark_started(session, claim.run_id, leases.database_now(session))
    logger.info("job %s of run %s claimed by %s", job_id, claim.run_id, worker.name)
    started = time.monotonic()
    try:
        with Heartbeat(worker.sessions, worker.send, claim, lease_s) as heartbeat:
            status, reason, detail = _measure(worker, claim, heartbeat)
        with transaction(worker.sessions, worker.send) as session:
            leases.release(session, claim, status, reason=reason, detail=detail)
            runs.settle(session, claim.run_id)
            runs.wake(session)
    except LeaseLost as error:
        logger.warning("job %s: %s", job_id, error)
        return
    except WorkerStopping:
        logger.info("job %s goes back to the queue: the worker stops", job_id)
        with suppress(LeaseLost), transaction(worker.sessions, worker.send) as session:
            leases.hand_back(session, claim)
        return
    logger.info("job %s %s after %.0f s", job_id, status, time.monotonic() - started)


def _measure(
    worker: Worker, claim: leases.Claim, heartbeat: Heartbeat
) -> tuple[Status, FailureReason | None, str | None]:
    """Measure all cases; the job's final status, with the reason where it was not measured."""
    try:
        Measuring(worker, claim, heartbeat).run()
    except MeasurementFailed as error:
        if error.log:
            stored = worker.store(claim.run_id).keep_text("setup.txt", error.log)
            with transaction(worker.sessions, worker.send) as session:
                leases.fence(session, claim)
                session.add(models.Artifact(run_id=claim.run_id, **vars(stored)))
        is_cancelled = error.reason is FailureReason.CANCELLED
        return (Status.CANCELLED if is_cancelled else Status.FAILED), error.reason, error.detail
    except (LeaseLost, WorkerStopping):
        raise
    except Exception:
        logger.exception("job %s failed", claim.job_id)
        detail = "Paceline itself failed; the worker's log has the traceback."
        return Status.FAILED, FailureReason.INTERNAL, detail
    return Status.FINISHED, None, None
