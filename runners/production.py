"""Production mode: a worker as a process of its own, and the beat that rings the reconciler."""

import logging
import signal
import sys
from types import FrameType

from celery import Celery, signals
from celery.beat import Scheduler, Service

from runners.consumer import make_consumer
from runners.worker import Worker

logger = logging.getLogger(__name__)


def run_worker(app: Celery, worker: Worker, cluster: str) -> None:
    """Work until SIGTERM; a job that is being measured then goes back to the queue.

    Exits with 1 where Celery could not get over the loss of its broker: whoever started the
    process, systemd or Compose, starts it again.
    """

    def stop(**_arguments: object) -> None:
        worker.stopping.set()

    def tell(**_arguments: object) -> None:
        logger.info("worker %s is ready", worker.name)

    signals.worker_shutting_down.connect(stop, weak=False)
    signals.worker_ready.connect(tell, weak=False)
    make_consumer(app, worker, cluster).start()
    if not worker.stopping.is_set():
        logger.error("worker %s lost its broker for good", worker.name)
        sys.exit(1)


def run_beat(app: Celery) -> None:
    """Ring the reconciler until SIGTERM. The schedule is ours alone, so none is kept on disk."""
    beat = Service(app, scheduler_cls=Scheduler)

    def stop(_number: int, _frame: FrameType | None) -> None:
        beat.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    logger.info("the beat is ready")
    beat.start()
