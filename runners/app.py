"""The Celery application. Messages are hints; the truth is in SQL.

control            a queue: plans and reconciliations, each for one worker
cluster.NAME       a bell: all workers of a cluster hear that there is a job, the idle ones
                   claim. A queue would hand some hints to workers that are busy.
"""

from typing import Any

from amqp.exceptions import ChannelError
from celery import Celery
from kombu import Exchange, Queue
from kombu.common import Broadcast

from service.config import Settings
from service.db.session import Message, Send
from service.usecases.runs import EXECUTE_TASK

CONTROL_QUEUE = "control"
RECONCILE_TASK = "paceline.reconcile"
_CONNECT_S = 2.0  # an API that waits for its broker would let its callers wait


def make_app(settings: Settings) -> Celery:
    """Celery on the configured broker: no results, early acknowledgement."""
    app = Celery("paceline", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=CONTROL_QUEUE,
        task_publish_retry=False,  # what is not sent is found by the reconciler
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # a worker outlives any outage of its broker
        beat_schedule={
            "reconcile": {
                "task": RECONCILE_TASK,
                "schedule": settings.reconcile_s,
                "options": {"expires": settings.reconcile_s},
            }
        },
    )
    if settings.is_standalone:
        app.conf.broker_transport_options = {"polling_interval": 0.02}
    else:
        app.conf.broker_transport_options = {
            "socket_connect_timeout": _CONNECT_S,
            "socket_timeout": 30.0,
            "socket_keepalive": True,
        }
    return app


def make_send(app: Celery) -> Send:
    """Sends messages: to one worker, or to all of a cluster."""

    def send(message: Message) -> None:
        if message.task == EXECUTE_TASK:
            (cluster,) = message.ids
            # As an object: kombu then declares it, and knows that all are to hear it.
            bell: Any = Exchange(_bell(cluster), type="fanout")
            app.send_task(message.task, exchange=bell)
        else:
            app.send_task(message.task, args=list(message.ids))

    return send


def queues(cluster: str) -> list[Queue]:
    """What a worker of a cluster listens to."""
    return [Queue(CONTROL_QUEUE), Broadcast(_bell(cluster))]


def num_waiting(app: Celery) -> int:
    """Messages on the control queue that no worker has taken yet."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        try:
            count: int = channel.queue_declare(CONTROL_QUEUE, passive=True).message_count
        except ChannelError:  # Redis keeps no empty queue
            return 0
    return count


def _bell(cluster: str) -> str:
    return f"cluster.{cluster}"
