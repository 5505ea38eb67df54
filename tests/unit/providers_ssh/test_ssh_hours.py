"""The hours in which a machine of one's own may be used."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from autopilot.providers.ssh.hours import open_until, parse_window

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = [parse_window("mon-fri 18:00-08:00"), parse_window("sat-sun 00:00-24:00")]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-30T12:00", "2026-11-30T12:00"),  # a Monday, at 13:00 there
        ("2026-11-30T17:00", "2026-12-01T07:00"),  # its evening has begun
        ("2026-12-01T06:59", "2026-12-01T07:00"),
        ("2026-12-01T07:00", "2026-12-01T07:00"),
        ("2026-11-29T12:00", "2026-11-29T23:00"),  # Sunday ends at midnight, and Monday's night begins at 18:00
        ("2026-12-04T20:00", "2026-12-06T23:00"),  # Friday's night meets Saturday
    ],
)
def test_until_when_it_is_open(now: str, end: str) -> None:
    assert open_until(NIGHTS, BERLIN, at(now)) == at(end)


def test_without_hours_it_never_closes() -> None:
    assert open_until([], BERLIN, at("2026-11-30T12:00")) is None
    assert open_until([parse_window("mon-sun 00:00-24:00")], BERLIN, at("2026-11-30T12:00")) is None


def test_days_go_round_the_end_of_the_week() -> None:
    weekend = [parse_window("sat-mon 00:00-24:00")]
    assert open_until(weekend, ZoneInfo("UTC"), at("2026-11-30T12:00")) == at("2026-12-01T00:00")
    assert open_until(weekend, ZoneInfo("UTC"), at("2026-12-01T12:00")) == at("2026-12-01T12:00")


def test_an_end_by_the_clock_is_that_of_its_day_when_the_clocks_change() -> None:
    night = [parse_window("sat 22:00-08:00")]
    assert open_until(night, BERLIN, at("2026-10-24T21:00")) == at("2026-10-25T07:00")


@pytest.mark.parametrize(
    "text", ["", "mon", "mon 8:00-9:00", "mon 24:00-25:00", "xyz 00:00-01:00", "mon 08:00-08:00", "mon 08:70-09:00"]
)
def test_what_is_no_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not (hours|times)"):
        parse_window(text)
