"""Kinds of values that several bodies and queries take."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:  # year 1 or 9999, and the zone leads out of it
        raise ValueError("this time does not exist in UTC") from error


# PostgreSQL stores no NUL, and no argument vector holds one.
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
# Shorter: `requested_by` holds "schedule NAME" in 100 letters.
ScheduleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Revision = Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[^-\s][^\s\x00]*$")]
ShaPrefix = Annotated[str, Field(pattern=r"^[0-9a-f]{4,64}$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
