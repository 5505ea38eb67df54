from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.time import known_year, month_bounds, parse_duration, show_duration, split_by_day, utc_day


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("36h", timedelta(hours=36)),
        ("1d12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
        ("15m", timedelta(minutes=15)),
        ("15min", timedelta(minutes=15)),
        (" 1h 30m ", timedelta(minutes=90)),
        ("1H", timedelta(hours=1)),
        ("0s", timedelta(0)),
        (timedelta(hours=3), timedelta(hours=3)),
    ],
)
def test_durations_are_read(text: object, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    "text",
    ["", "90", "h", "-5h", "1h,30m", "1mo", "5ms", "1.5.5h", "an hour", "1h x", 90, 1.5, None, True, "99999999999999w"],
)
def test_what_is_not_a_duration_is_the_users_error(text: object) -> None:
    with pytest.raises(UserError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=42), "42 s"),
        (timedelta(minutes=3, seconds=7), "3 min 7 s"),
        (timedelta(hours=1, minutes=5), "1 h 5 min"),
        (timedelta(hours=2, minutes=40, seconds=59), "2 h 40 min"),
        (timedelta(days=2, hours=3, minutes=59), "2 d 3 h"),
        (timedelta(days=1, minutes=59), "1 d"),
        (timedelta(hours=-2), "-2 h"),
        (timedelta(0), "0 s"),
        (timedelta(milliseconds=-1), "0 s"),
    ],
)
def test_durations_for_people(span: timedelta, text: str) -> None:
    assert show_duration(span) == text


def utc(year: int, month: int, day: int, hour: int = 0) -> datetime:
    return datetime(year, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        pytest.param(utc(2026, 11, 20, 9), utc(2026, 11, 20, 17), [date(2026, 11, 20)], id="within a day"),
        pytest.param(utc(2026, 11, 20), utc(2026, 11, 21), [date(2026, 11, 20)], id="half-open at midnight"),
        pytest.param(utc(2026, 1, 31, 23), utc(2026, 2, 1, 1), [date(2026, 1, 31), date(2026, 2, 1)], id="month end"),
        pytest.param(
            utc(2028, 2, 28, 23),
            utc(2028, 3, 1, 1),
            [date(2028, 2, 28), date(2028, 2, 29), date(2028, 3, 1)],
            id="leap",
        ),
        pytest.param(utc(2027, 2, 28, 23), utc(2027, 3, 1, 1), [date(2027, 2, 28), date(2027, 3, 1)], id="no leap"),
        pytest.param(utc(2026, 12, 31, 23), utc(2027, 1, 1, 1), [date(2026, 12, 31), date(2027, 1, 1)], id="year end"),
        pytest.param(utc(2026, 11, 20), utc(2026, 11, 20), [], id="empty"),
        pytest.param(utc(2026, 11, 21), utc(2026, 11, 20), [], id="backwards"),
    ],
)
def test_intervals_are_cut_at_utc_midnight(start: datetime, end: datetime, days: list[date]) -> None:
    parts = list(split_by_day(start, end))
    assert [day for day, _, _ in parts] == days
    assert all(utc_day(begun) == day and begun < until for day, begun, until in parts)
    assert sum((until - begun for _, begun, until in parts), timedelta(0)) == max(end - start, timedelta(0))


def test_days_are_utc_in_any_zone_of_the_instant() -> None:
    oslo = timezone(timedelta(hours=1))
    start = datetime(2026, 11, 21, 0, 30, tzinfo=oslo)
    assert utc_day(start) == date(2026, 11, 20)
    assert [day for day, _, _ in split_by_day(start, start + timedelta(hours=1))] == [
        date(2026, 11, 20),
        date(2026, 11, 21),
    ]


@pytest.mark.parametrize("month", ["9999-12", "9000-01", "0001-01", "1969-12", "2026-13", "2026-1", ""])
def test_what_is_no_month_that_can_be_asked_for_is_the_users_error(month: str) -> None:
    with pytest.raises(UserError, match="not a month"):
        month_bounds(month)


def test_years_that_are_known() -> None:
    assert month_bounds("8999-12") == (date(8999, 12, 1), date(9000, 1, 1))
    assert known_year(date(1970, 1, 1)) == date(1970, 1, 1)
    for day in (date.min, date(1969, 12, 31), date(9000, 1, 1), date.max):
        with pytest.raises(ValueError, match="out of range"):
            known_year(day)
