"""Standalone mode: a Celery worker and the reconciler as threads of the service's own process."""

import logging
import threading

from celery import Celery, signals

from runners.app import CONTROL_QUEUE, MEASURE_QUEUE
from runners.context import Worker
from runners.tasks import register
from service.db.session import transaction
from service.usecases import runs

logger = logging.getLogger(__name__)

_STOP_S = 60.0
_NUM_TASKS = 2  # one measures, for the slot admits one; the other plans meanwhile


class InProcessWorker:
    """A worker for both queues, and the reconciler."""

    def __init__(self, app: Celery, worker: Worker) -> None:
        signals.setup_logging.connect(_keep_logging, weak=False)
        register(app, worker)
        self._worker = worker
        self._celery = app.Worker(
            pool="threads",
            concurrency=_NUM_TASKS,
            queues=[CONTROL_QUEUE, MEASURE_QUEUE],
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )
        targets = (self._celery.start, self._reconcile)
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop them. A job that is being measured ends its trials and goes back to the queue."""
        self._worker.stopping.set()
        self._celery.stop()
        for thread in self._threads:
            thread.join(_STOP_S)

    def _reconcile(self) -> None:
        """Take up what a dead process left behind: at once, then regularly."""
        settings = self._worker.settings
        while True:
            try:
                with transaction(self._worker.sessions, self._worker.send) as session:
                    runs.reconcile(
                        session,
                        older_than_s=settings.reconcile_s,
                        grace_s=settings.kill_grace_s,
                    )
            except Exception:
                logger.exception("the reconciler failed; it tries again")
            if self._worker.stopping.wait(settings.reconcile_s):
                return


def _keep_logging(**_arguments: object) -> None:
    """A receiver of this signal keeps Celery from configuring the process's logging."""
