"""Runs that are asked for again and again, by the clock."""

import logging
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from service.cron import next_time
from service.db import catalog, models
from service.db import schedules as schedules_db
from service.db.leases import database_now
from service.db.session import DATABASE_FAILURES
from service.domain import Intent
from service.usecases import runs
from service.usecases.runs import RunRequest

logger = logging.getLogger(__name__)

_RETRY = timedelta(days=1)


def put(
    session: Session, name: str, cron: str, body: RunRequest, *, created_by: str
) -> tuple[models.Schedule, bool]:
    """Set a project's schedule of that name; whether it is new. Raises NotFound and Refused.

    One that is set anew keeps its next time unless its line changes: that may be due by now.
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
    is_new = catalog.find_or_add(session, row, project_id=project.id, name=name) is row
    stored = schedules_db.lock(session, project, name)
    stored.request = row.request
    if stored.cron != cron:
        stored.cron, stored.next_at = cron, next_at
    return stored, is_new


def delete(session: Session, project: str, name: str) -> models.Schedule:
    """Take a schedule away; its runs stay. Raises NotFound."""
    row = schedules_db.lock(session, catalog.project(session, project), name)
    session.delete(row)
    return row


def start_due(session: Session) -> None:
    """Ask for the runs whose time has come.

    A time that passed while nobody looked is made up for once. A schedule whose run before has not
    ended leaves this time out: runs that take longer than their interval must not pile up.
    """
    now = database_now(session)
    for row in schedules_db.due(session, now):
        try:
            with session.begin_nested():
                _start(session, row, now)
        except DATABASE_FAILURES:  # it will be due again
            raise
        except Exception:  # one that cannot be served must not keep the others from their runs
            logger.exception("schedule %s (%s) cannot ask for a run", row.name, row.id)
            row.next_at, row.left_out_at = now + _RETRY, now


def _start(session: Session, row: models.Schedule, now: datetime) -> None:
    row.next_at = next_time(row.cron, now)
    if schedules_db.has_open_run(session, row.id):
        logger.warning("schedule %s (%s): its run before goes on; left out", row.name, row.id)
        row.left_out_at = now
        return
    run = runs.request(session, _body(session, row), requested_by=f"schedule {row.name}")
    run.schedule_id = row.id
    logger.info("schedule %s (%s) asks for run %s", row.name, row.id, run.id)


def _body(session: Session, row: models.Schedule) -> RunRequest:
    """What to ask for now: where no baseline is named, it is the last commit that was settled."""
    body = runs.request_from_json(row.request)
    if body.baseline is not None or body.intent is Intent.CALIBRATE:
        return body
    last = schedules_db.last_settled(session, row.id, body.candidate.revision)
    return body if last is None else replace(body, baseline=replace(body.candidate, revision=last))
