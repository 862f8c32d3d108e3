"""Standalone mode: a Celery worker and the reconciler as threads of the service's own process."""

import logging
import threading

from celery import Celery

from runners.consumer import make_consumer
from runners.tasks import reconcile
from runners.worker import Worker

logger = logging.getLogger(__name__)

_STOP_S = 60.0


class InProcessWorker:
    """A worker, and the reconciler."""

    def __init__(self, app: Celery, worker: Worker, cluster: str) -> None:
        self._app, self._worker = app, worker
        self._consumer = make_consumer(app, worker, cluster)
        targets = {"consumer": self._consumer.start, "reconciler": self._reconcile}
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in targets.items()
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop them. A job that is being measured ends its trials and goes back to the queue."""
        self._worker.stopping.set()
        self._consumer.stop()
        for thread in self._threads:
            thread.join(_STOP_S)

    def _reconcile(self) -> None:
        """Take up what a dead process left behind: at once, then regularly."""
        while True:
            try:
                reconcile(self._app, self._worker)
            except Exception:
                logger.exception("the reconciler failed; it tries again")
            if self._worker.stopping.wait(self._worker.settings.reconcile_s):
                return
