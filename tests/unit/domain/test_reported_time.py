"""Our clock beside what markets say of the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from autopilot.domain.reported_time import CLOCK_TOLERANCE, REPORTED_FOR, ReportedTime, find_clock_error

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(*ahead: timedelta, age: timedelta = timedelta(0)) -> list[ReportedTime | None]:
    return [ReportedTime(each, NOW - age) for each in ahead]


@pytest.mark.parametrize(
    ("ahead", "error"),
    [
        ((), None),
        ((timedelta(0),), None),
        ((CLOCK_TOLERANCE,), None),
        ((-CLOCK_TOLERANCE,), None),
        ((HOUR,), HOUR),
        ((-HOUR,), -HOUR),
        ((HOUR, HOUR + timedelta(seconds=2)), HOUR),
        ((HOUR, timedelta(0)), None),  # one agrees with us: the other is wrong
        ((HOUR, 2 * HOUR), None),  # one of them is wrong, and it is unknown which
        ((HOUR, -HOUR), None),
        ((HOUR, HOUR, 3 * HOUR), None),
    ],
)
def test_only_markets_that_agree_speak_against_our_clock(ahead: tuple[timedelta, ...], error: timedelta | None) -> None:
    assert find_clock_error(told(*ahead), NOW) == error


def test_a_market_that_tells_no_time_and_one_that_told_it_long_ago_do_not_count() -> None:
    assert find_clock_error([None, *told(HOUR)], NOW) == HOUR
    assert find_clock_error(told(HOUR, age=REPORTED_FOR + timedelta(seconds=1)), NOW) is None
