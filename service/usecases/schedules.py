"""Runs that are asked for again and again, by the clock."""

import logging
from dataclasses import asdict, replace
from datetime import datetime

from sqlalchemy.orm import Session

from service.cron import next_time
from service.db import catalog, models
from service.db import schedules as schedules_db
from service.db.leases import database_now
from service.domain import Intent
from service.usecases import runs
from service.usecases.runs import RunRequest

logger = logging.getLogger(__name__)


def put(
    session: Session, name: str, cron: str, body: RunRequest, *, created_by: str
) -> tuple[models.Schedule, bool]:
    """Set a project's schedule of that name; whether it is new.

    Without a baseline it is the last commit for which the schedule found a verdict, so that no
    commit is left out; before there is one, the default of a run. Raises NotFound and Refused.
    """
    next_at = next_time(cron, database_now(session))
    project, _ = runs.place(session, body)
    row = models.Schedule(
        project_id=project.id,
        name=name,
        cron=cron,
        request=asdict(body),
        created_by=created_by,
        next_at=next_at,
    )
    stored = catalog.find_or_add(session, row, project_id=project.id, name=name)
    if stored is not row:
        stored.cron, stored.request, stored.next_at = cron, row.request, next_at
        session.flush()
    return schedules_db.schedule(session, project, name), stored is row


def delete(session: Session, project: str, name: str) -> models.Schedule:
    """Take a schedule away; its runs stay. Raises NotFound."""
    row = schedules_db.schedule(session, catalog.project(session, project), name)
    session.delete(row)
    return row


def start_due(session: Session) -> None:
    """Ask for the runs whose time has come.

    A time that passed while nobody looked is made up for once. A schedule whose run before has not
    ended leaves this time out: runs that take longer than their interval must not pile up.
    """
    now = database_now(session)
    for row in schedules_db.due(session, now):
        row.next_at = next_time(row.cron, now)
        try:
            with session.begin_nested():
                _start(session, row, now)
        except Exception:  # one that cannot be served must not keep the others from their runs
            logger.exception("schedule %s cannot ask for a run", row.name)
            row.left_out_at = now


def _start(session: Session, row: models.Schedule, now: datetime) -> None:
    if schedules_db.is_running(session, row.id):
        logger.warning("schedule %s: its run before has not ended; left out", row.name)
        row.left_out_at = now
        return
    run = runs.request(session, _body(session, row), requested_by=f"schedule {row.name}")
    run.schedule_id = row.id
    logger.info("schedule %s asks for run %s", row.name, run.id)


def _body(session: Session, row: models.Schedule) -> RunRequest:
    body = runs.request_from_json(row.request)
    last = schedules_db.last_settled(session, row.id)
    if body.baseline is not None or body.intent is Intent.CALIBRATE or last is None:
        return body
    return replace(body, baseline=replace(body.candidate, revision=last))
