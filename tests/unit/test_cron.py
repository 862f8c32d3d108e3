"""Times of a cron line."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from service.cron import next_time
from service.errors import Refused

MONDAY = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("0 2 * * *", MONDAY, datetime(2026, 12, 1, 2)),
        ("0 2 * * *", MONDAY - timedelta(microseconds=1), datetime(2026, 11, 30, 2)),
        ("0 2 * * *", MONDAY + timedelta(seconds=7), datetime(2026, 12, 1, 2)),
        ("*/15 * * * *", MONDAY, datetime(2026, 11, 30, 2, 15)),
        ("0 9,17 * * *", datetime(2026, 11, 30, 9, 0, tzinfo=UTC), datetime(2026, 11, 30, 17)),
        ("30 2 * * mon-fri", datetime(2026, 11, 27, 12, tzinfo=UTC), datetime(2026, 11, 30, 2, 30)),
        ("0 0 29 2 *", MONDAY, datetime(2028, 2, 29)),
        ("0 2 1 * mon", MONDAY, datetime(2027, 2, 1, 2)),
        ("59 23 31 12 *", MONDAY, datetime(2026, 12, 31, 23, 59)),
        (" 0  2\t* * * ", MONDAY, datetime(2026, 12, 1, 2)),
        ("0,30 2-4/2 1,15 jan-mar *", MONDAY, datetime(2027, 1, 1, 2)),
    ],
)
def test_the_next_time(line: str, after: datetime, expected: datetime):
    assert next_time(line, after) == expected.replace(tzinfo=UTC)


def test_lines_are_in_utc_wherever_they_are_asked():
    in_tokyo = MONDAY.astimezone(timezone(timedelta(hours=9)))
    found = next_time("0 2 * * *", in_tokyo)
    assert (found, found.utcoffset()) == (MONDAY + timedelta(days=1), timedelta(0))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not five fields"),
        ("@daily", "not five fields"),
        ("0 2 * *", "not five fields"),
        ("0 2 * * * *", "not five fields"),
        ("61 * * * *", "61 > 59"),
        ("0 0 * * 7", "7 > 6"),
        ("*/0 * * * *", "zero"),
        (",, * * * *", "'' is no"),
        ("a * * * *", "'a'"),
        ("*/2.5 * * * *", "'*/2.5' is no"),
        ("*/15-3 * * * *", "'*/15-3' is no"),
        ("0-30-45 * * * *", "'0-30-45' is no"),
        ("1_0 * * * *", "'1_0' is no"),
        ("-5 * * * *", "'-5' is no"),
        ("0 0 30 2 *", "never occurs"),
    ],
)
def test_what_is_no_line_is_refused_with_the_reason(line: str, why: str):
    with pytest.raises(Refused, match="minute, hour") as refused:
        next_time(line, MONDAY)
    assert why in refused.value.detail
    assert refused.value.field == "cron"
