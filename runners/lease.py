"""Keeps a claim alive while its job is measured, and tells when it must stop."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from runners.worker import Worker
from service.db import leases
from service.domain import CANCELLED
from service.errors import LeaseLost, MeasurementFailed, WorkerStopping

logger = logging.getLogger(__name__)


class Heartbeat:
    """Renews a lease in a thread, five times per lease.

    When it is lost, or could not be renewed for half its length, `check` raises: by then another
    worker may soon own the job, and its slot, and this one must have left the machine.
    """

    def __init__(self, worker: Worker, claim: leases.Claim) -> None:
        self._worker, self._claim, self._lease_s = worker, claim, worker.settings.lease_s
        self._ended = threading.Event()
        self._is_cancelled = False
        self._lost: str | None = None
        self._renewed = time.monotonic()
        self._thread = threading.Thread(
            target=self._beat, name=f"lease-{claim.job_id}", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raises LeaseLost, WorkerStopping, or MeasurementFailed when the run was cancelled."""
        if self._lost is not None:
            raise LeaseLost(self._lost)
        if time.monotonic() - self._renewed > self._lease_s / 2:
            raise LeaseLost(f"Job {self._claim.job_id}: no heartbeat for half a lease.")
        if self._is_cancelled:
            raise MeasurementFailed(CANCELLED)
        if self._worker.stopping.is_set():
            raise WorkerStopping("The worker stops.")

    def _beat(self) -> None:
        while not self._ended.wait(self._lease_s / 5):
            asked = time.monotonic()  # the lease runs from the database's clock, read after this
            try:
                with self._worker.transaction() as session:
                    self._is_cancelled = leases.extend(session, self._claim, lease_s=self._lease_s)
                self._renewed = asked
            except LeaseLost as error:
                self._lost = str(error)
                return
            except SQLAlchemyError as error:
                logger.warning("job %s: heartbeat failed: %s", self._claim.job_id, error)
