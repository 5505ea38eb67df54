"""The days that a report is about, as a request names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autopilot.domain.errors import UserError
from autopilot.domain.time import known_year, month_bounds, parse_duration

LONGEST_AGO = timedelta(days=3660)

Default = TypeVar("Default", datetime, None)


@dataclass(frozen=True, slots=True)
class Period:
    """The zone's days from ``first`` up to but without ``after``; None: no bound."""

    zone: tzinfo
    zone_name: str
    first: date | None = None
    after: date | None = None

    @property
    def last(self) -> date | None:
        return None if self.after is None else self.after - timedelta(days=1)


def period_of(query: Mapping[str, str]) -> Period:
    """From ``month`` ("2026-11"), or ``since`` and ``until`` (both included), and ``zone``. Raises ``UserError``."""
    name = query.get("zone") or "UTC"
    zone = _zone(name)
    since, until = _day(query, "since"), _day(query, "until")
    month = query.get("month")
    if month is None:
        if since is not None and until is not None and until < since:
            raise UserError(f"the period ends ({until}) before it starts ({since})")
        return Period(zone, name, since, None if until is None else until + timedelta(days=1))
    if since is not None or until is not None:
        raise UserError("a month and a first or last day exclude each other")
    return Period(zone, name, *month_bounds(month))


def instant(text: str | None, key: str, now: datetime, default: Default) -> datetime | Default:
    """An instant in ISO 8601 with its zone, or how long ago; None: ``default``. Raises ``UserError``."""
    if text is None:
        return default
    try:
        at = known_year(datetime.fromisoformat(text))
    except ValueError:
        ago = parse_duration(text)
        if ago > LONGEST_AGO:
            raise UserError(f"{key}: too long ago: {text}") from None
        return now - ago
    if at.tzinfo is None:
        raise UserError(
            f"{key}: an instant without its zone: {text}", hint='write it as "2026-11-01T00:00:00Z", or "7d"'
        )
    return at


def _day(query: Mapping[str, str], key: str) -> date | None:
    text = query.get(key)
    if text is None:
        return None
    try:
        return known_year(date.fromisoformat(text))
    except ValueError:
        raise UserError(f"{key}: not a day: {text!r}", hint='write it as "2026-11-30"') from None


def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(f"no such time zone: {name!r}", hint='a name like "Europe/Berlin"') from None
