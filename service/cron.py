"""Times of a cron line, in UTC. Celery reads it: its beat has known such lines for long."""

from datetime import UTC, datetime

from celery.schedules import ParseException, crontab

from service.errors import Refused

_FORM = "minute, hour, day of the month, month and day of the week, as in `0 2 * * mon-fri`"


def next_time(line: str, after: datetime) -> datetime:
    """The first time of `line` later than `after`, which must have a zone.

    A time must match all five fields. Raises Refused where the line is none, or never comes.
    """
    try:
        if len(line.split()) != 5:
            raise ValueError("it has not five fields")
        _, until, _ = crontab.from_string(line).remaining_delta(after.astimezone(UTC), tz=UTC)
    except (ValueError, ParseException) as error:
        detail = f"{line!r} is no cron line ({error}). The fields are {_FORM}."
        raise Refused("cron", detail) from error
    found: datetime = after.astimezone(UTC) + until
    return found
