"""The Celery application of the workers. Messages are hints; the truth is in SQL."""

from celery import Celery

from service.config import Settings

CONTROL_QUEUE = "control"
MEASURE_QUEUE = "measure"


def make_app(settings: Settings) -> Celery:
    """Celery on the configured broker: no results, early acknowledgement, one task at a time."""
    app = Celery("paceline", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        task_default_queue=CONTROL_QUEUE,
        task_routes={
            "paceline.plan_run": {"queue": CONTROL_QUEUE},
            "paceline.execute_job": {"queue": MEASURE_QUEUE},
        },
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    if settings.broker_url.startswith("memory://"):
        app.conf.broker_transport_options = {"polling_interval": 0.02}
    return app
