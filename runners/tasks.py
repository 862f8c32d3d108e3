"""Celery tasks: thin doors to the use cases. Tasks take ids; running one twice changes nothing."""

from uuid import UUID

from celery import Celery

from runners.context import Worker
from runners.execute import execute_job
from runners.plan import plan_run
from service.usecases.runs import EXECUTE_TASK, PLAN_TASK


def register(app: Celery, worker: Worker) -> None:
    """Make the tasks known to an application."""

    @app.task(name=PLAN_TASK)
    def _plan_run(run_id: str) -> None:
        plan_run(UUID(run_id), worker)

    @app.task(name=EXECUTE_TASK)
    def _execute_job(job_id: str) -> None:
        execute_job(UUID(job_id), worker)
