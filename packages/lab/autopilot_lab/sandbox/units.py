"""Units of the markets' books. They are the laboratory's own: a ledger is never held against its own arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

NANO = Decimal("1e-9")
CENT = Decimal("0.01")
HOURS_PER_STORAGE_MONTH = 720
"""Both markets bill a month of storage as 30 days."""


def utc_day(instant: datetime) -> date:
    return instant.astimezone(UTC).date()


def start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def cut_at_midnights(start: datetime, end: datetime) -> Iterator[tuple[date, datetime, datetime]]:
    """``[start, end)`` in pieces that lie within one UTC day each: (day, from, to)."""
    while start < end:
        day = utc_day(start)
        midnight = start_of_day(day) + timedelta(days=1)
        yield day, start, min(end, midnight)
        start = midnight
