"""The Celery worker around our tasks, the same in a process of its own and in standalone mode."""

from typing import Any

from celery import Celery, signals

from runners.app import queues
from runners.tasks import register
from runners.worker import Worker

_NUM_TASKS = 4  # one measures, for the slot admits one; the others plan and reconcile meanwhile


def make_consumer(app: Celery, worker: Worker, cluster: str) -> Any:
    """A worker for the control queue and the cluster's bell; `start` blocks, `stop` ends it."""
    signals.setup_logging.connect(_keep_logging, weak=False)
    app.conf.task_queues = queues(cluster)
    register(app, worker)
    return app.Worker(
        hostname=worker.name,
        pool="threads",
        concurrency=_NUM_TASKS,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )


def _keep_logging(**_arguments: object) -> None:
    """A receiver of this signal keeps Celery from configuring the process's logging."""
