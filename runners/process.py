"""Production mode: a worker as a process of its own, and the beat that rings the reconciler."""

import logging
import signal
from types import FrameType

from celery import Celery, signals
from celery.beat import Scheduler, Service

from runners.consumer import make_consumer
from runners.context import Worker

logger = logging.getLogger(__name__)


def run_worker(app: Celery, worker: Worker, cluster: str) -> None:
    """Work until SIGTERM; a job that is being measured then goes back to the queue."""

    def stop(**_arguments: object) -> None:
        worker.stopping.set()

    def tell(**_arguments: object) -> None:
        logger.info("worker %s is ready", worker.name)

    signals.worker_shutting_down.connect(stop, weak=False)
    signals.worker_ready.connect(tell, weak=False)
    make_consumer(app, worker, cluster).start()


def run_beat(app: Celery) -> None:
    """Ring the reconciler until SIGTERM. The schedule is ours alone, so none is kept on disk."""
    beat = Service(app, scheduler_cls=Scheduler)

    def stop(_number: int, _frame: FrameType | None) -> None:
        beat.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    logger.info("the beat is ready")
    beat.start()
