from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from autopilot_lab.sandbox.units import cut_at_midnights

EVENING = datetime(2026, 2, 28, 22, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def test_an_interval_is_cut_at_each_midnight() -> None:
    end = MIDNIGHT + timedelta(hours=25)
    assert list(cut_at_midnights(EVENING, end)) == [
        (date(2026, 2, 28), EVENING, MIDNIGHT),
        (date(2026, 3, 1), MIDNIGHT, MIDNIGHT + timedelta(days=1)),
        (date(2026, 3, 2), MIDNIGHT + timedelta(days=1), end),
    ]


def test_an_end_at_midnight_adds_no_empty_day() -> None:
    assert [day for day, _, _ in cut_at_midnights(EVENING, MIDNIGHT)] == [date(2026, 2, 28)]
