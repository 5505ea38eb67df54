"""Days of a time zone, and sums shared out over them. A day may have 23 or 25 hours, or none at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal

from autopilot.domain.money import from_nano, to_nano
from autopilot.domain.time import MICROSECOND

DAY = timedelta(days=1)


def midnight(day: date, zone: tzinfo) -> datetime:
    """The zone's first instant of that day, in UTC."""
    local = datetime.combine(day, time(), zone)
    return local if zone is UTC else local.astimezone(UTC)


def window(zone: tzinfo, first: date | None, after: date | None) -> tuple[date | None, date | None]:
    """The UTC days (from, up to but without) that the zone's days ``first`` to ``after`` touch."""
    since = None if first is None else midnight(first, zone).astimezone(UTC).date()
    if after is None:
        return since, None
    return since, (midnight(after, zone).astimezone(UTC) - MICROSECOND).date() + DAY


def local_days(start: datetime, end: datetime, zone: tzinfo) -> Iterator[tuple[date, datetime, datetime]]:
    """The zone's days that ``[start, end)`` touches, each with its share of it. A day may have 23 or 25 hours."""
    return _local(start, end, zone, lambda day: (day, day + DAY))


def local_months(start: datetime, end: datetime, zone: tzinfo) -> Iterator[tuple[date, datetime, datetime]]:
    """The first days of the zone's months that ``[start, end)`` touches, each with its share of it."""
    return _local(start, end, zone, _month_of)


def _month_of(day: date) -> tuple[date, date]:
    return day.replace(day=1), date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _local(
    start: datetime, end: datetime, zone: tzinfo, period_of: Callable[[date], tuple[date, date]]
) -> Iterator[tuple[date, datetime, datetime]]:
    """``period_of``: a day's period, as its first day and that of the next one."""
    at = start
    while at < end:
        first, after = period_of((at if zone is UTC else at.astimezone(zone)).date())
        until = min(end, midnight(after, zone))
        yield first, at, until
        at = until


def share_out(amount: Decimal, weights: Sequence[int]) -> list[Decimal]:
    """``amount`` in proportion to the weights, in whole nano-dollars that add up to it exactly."""
    nano, whole = to_nano(amount), sum(weights)
    shares, passed, given = [], 0, 0
    for weight in weights:
        passed += weight
        upto = nano * passed // whole
        shares.append(from_nano(upto - given))
        given = upto
    return shares
