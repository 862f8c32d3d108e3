"""Times of a cron line, in UTC. Celery reads it: its beat has known such lines for long."""

import re
from datetime import UTC, datetime

from celery.schedules import ParseException, crontab

from service.errors import Refused

_FORM = "minute, hour, day of the month, month and day of the week, as in `0 2 * * mon-fri`"
# Celery reads the beginning of a part and lets the rest be: `*/2.5` would be `*/2`.
_PART = re.compile(r"(\*|[a-z0-9]+(-[a-z0-9]+)?)(/[0-9]+)?", re.IGNORECASE)


def next_time(line: str, after: datetime) -> datetime:
    """The first time of `line` later than `after`, which must have a zone.

    A time must match all five fields. Raises Refused where the line is none, or never comes.
    """
    try:
        schedule = _read(line)
        _, until, _ = schedule.remaining_delta(after.astimezone(UTC), tz=UTC)
    except (ValueError, ParseException) as error:
        detail = f"{line!r} is no cron line ({error}). The fields are {_FORM}."
        raise Refused("cron", detail) from error
    found: datetime = after.astimezone(UTC) + until
    return found


def _read(line: str) -> crontab:
    fields = line.split()
    if len(fields) != 5:
        raise ValueError("it has not five fields")
    for part in ",".join(fields).split(","):
        if not _PART.fullmatch(part):
            raise ValueError(f"{part!r} is no number, name, range or step")
    minute, hour, day_of_month, month_of_year, day_of_week = fields
    return crontab(minute, hour, day_of_week, day_of_month, month_of_year)
