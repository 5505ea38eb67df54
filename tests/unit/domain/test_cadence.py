"""When firings are due: daylight saving time, ends, outages, and expressions that are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from autopilot.domain.cadence import (
    MOST_COUNTED,
    Cadence,
    check_cron,
    check_zone,
    count_due,
    find_newest,
    find_next,
    list_due,
)

BERLIN, DAILY, HOUR = "Europe/Berlin", "30 2 * * *", timedelta(hours=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "after", "due"),
    [
        (DAILY, "2026-03-27T12:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),  # 2:30 is not there on the 29th
        (DAILY, "2026-10-24T12:00", ["10-25 00:30", "10-26 01:30", "10-27 01:30"]),  # there twice, due once
        (DAILY, "2026-10-25T01:10", ["10-26 01:30", "10-27 01:30", "10-28 01:30"]),  # in the second of the two hours
        ("0 * * * *", "2026-10-24T23:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),  # each hour, both of them
        ("0 9 * * mon-fri", "2026-05-01T08:00", ["05-04 07:00", "05-05 07:00", "05-06 07:00"]),
        ("0 0 L * *", "2026-02-01T00:00", ["02-27 23:00", "03-30 22:00", "04-29 22:00"]),
    ],
)
def test_due_instants_are_local_ones(cron: str, after: str, due: list[str]) -> None:
    found = list_due(Cadence(cron, BERLIN), utc(after), 3)
    assert [f"{each:%m-%d %H:%M}" for each in found] == due
    assert all(each.tzinfo is UTC for each in found)


@pytest.mark.parametrize("cron", ["* * * * *", "17 */5 * * *", DAILY, "0 0 29 2 *", "0 12 1 * *"])
def test_the_newest_is_the_last_that_a_walk_finds(cron: str) -> None:
    cadence, upto = Cadence(cron, "America/New_York"), utc("2026-11-02T07:00")
    for back in (timedelta(minutes=90), timedelta(hours=30), timedelta(days=40) if cron.startswith("0 ") else HOUR):
        due, walked = find_next(cadence, upto - back), list[datetime]()
        while due is not None and due <= upto:
            walked.append(due)
            due = find_next(cadence, due)
        assert find_newest(cadence, upto - back, upto) == (walked[-1] if walked else None)
        if walked:
            assert count_due(cadence, upto - back, walked[-1]) == min(len(walked) - 1, MOST_COUNTED)


def test_nothing_is_due_at_its_end_or_later() -> None:
    cadence = Cadence("0 * * * *", until=utc("2026-05-01T03:00"))
    assert len(list_due(cadence, utc("2026-05-01T00:30"), 9)) == 2
    assert find_next(cadence, utc("2026-05-01T02:00")) is None
    assert find_newest(cadence, utc("2026-05-01T00:30"), utc("2026-06-01T00:00")) == utc("2026-05-01T02:00")


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "a * * * *",
        "0 0 30 2 *",
        "*/0 * * * *",
        "@daily",
        "0 " * 100,
    ],
)
def test_what_is_no_expression_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match=r"field|expression|characters"):
        check_cron(cron)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "/etc/localtime", "Europe"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="not a time zone"):
        check_zone(zone)
