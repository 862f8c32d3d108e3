"""Celery tasks: thin doors to the use cases. Tasks take ids; running one twice changes nothing."""

from uuid import UUID

from celery import Celery

from runners.app import RECONCILE_TASK, num_waiting
from runners.execute import execute_jobs
from runners.plan import plan_run
from runners.worker import Worker
from service.logs import bound
from service.usecases import runs, schedules
from service.usecases.runs import EXECUTE_TASK, PLAN_TASK


def register(app: Celery, worker: Worker) -> None:
    """Make the tasks known to an application, and to it alone: each app has its own worker."""

    @app.task(name=PLAN_TASK, shared=False)
    def _plan_run(run_id: str) -> None:
        with bound(run_id=run_id, worker=worker.name):
            plan_run(UUID(run_id), worker)

    @app.task(name=EXECUTE_TASK, shared=False)
    def _execute_jobs() -> None:
        with bound(worker=worker.name):
            execute_jobs(worker)

    @app.task(name=RECONCILE_TASK, shared=False)
    def _reconcile() -> None:
        with bound(worker=worker.name):
            reconcile(app, worker)


def reconcile(app: Celery, worker: Worker) -> None:
    """Take up what dead workers and lost messages left behind, and what a schedule wants now."""
    settings = worker.settings
    with worker.transaction() as session:
        runs.reconcile(
            session,
            grace_s=settings.kill_grace_s,
            max_losses=settings.max_losses,
            idempotency_s=settings.idempotency_s,
        )
    with worker.transaction() as session:
        schedules.start_due(session)
    # While messages wait, workers are behind; sent again, they would only pile up.
    if num_waiting(app) == 0:
        with worker.transaction() as session:
            runs.replan(session, older_than_s=settings.reconcile_s)
    with worker.transaction() as session:
        runs.note_reconciliation(session)
