"""Instants are aware UTC datetimes, durations ``timedelta``; days and months are half-open UTC intervals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TypeVar

from autopilot.domain.errors import UserError

MICROSECOND = timedelta(microseconds=1)
Day = TypeVar("Day", bound=date)

_UNIT_S = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1}
_SHOWN = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(min|[wdhms])", re.IGNORECASE)


def parse_duration(text: object) -> timedelta:
    """``"90s"``, ``"36h"``, ``"1d12h"``, ``"1.5h"``; a number without a unit is refused.

    Raises ``UserError``.
    """
    if isinstance(text, timedelta):
        return text
    problem = UserError(f"not a duration: {text!r}", hint='write it with a unit, like "90s", "36h" or "1d12h"')
    if not isinstance(text, str):
        raise problem
    position, total_s = 0, 0.0
    stripped = text.strip()
    for part in _DURATION.finditer(stripped):
        if stripped[position : part.start()].strip():
            raise problem
        total_s += float(part[1]) * _UNIT_S[part[2].lower()]
        position = part.end()
    if position == 0 or stripped[position:].strip():
        raise problem
    try:
        return timedelta(seconds=total_s)
    except OverflowError:
        raise problem from None


def show_duration(span: timedelta) -> str:
    """``2 d 3 h``, ``2 h 40 min``, ``1 h``, ``42 s``: the leading unit and the next one if any is left, for people."""
    seconds = int(abs(span).total_seconds())
    sign = "-" if span < timedelta(0) and seconds else ""
    for (unit, size), (smaller, part) in pairwise(_SHOWN):
        if seconds >= size:
            rest = seconds % size // part
            return f"{sign}{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{sign}{seconds} s"


def utc_day(instant: datetime) -> date:
    return instant.astimezone(UTC).date()


def start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def split_by_day(start: datetime, end: datetime) -> Iterator[tuple[date, datetime, datetime]]:
    """The UTC days that ``[start, end)`` touches, each with its share of the interval."""
    at = start
    while at < end:
        day = utc_day(at)
        until = min(end, start_of_day(day + timedelta(days=1)))
        yield day, at, until
        at = until


def known_year(day: Day) -> Day:
    """The same. Raises ``ValueError`` near the calendar's ends, where a time zone or a month more would lead out."""
    if not 1970 <= day.year < 9000:
        raise ValueError("out of range")
    return day


def month_bounds(month: str) -> tuple[date, date]:
    """The first day of the UTC month "YYYY-MM" and of the next one. Raises ``UserError``."""
    try:
        first = known_year(date.fromisoformat(f"{month}-01"))
    except ValueError:
        raise UserError(f"not a month: {month!r}", hint='write it as "2026-11"') from None
    return first, (first + timedelta(days=31)).replace(day=1)
