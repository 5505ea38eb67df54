"""The hours in which a machine may be used. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"([a-z]{3})(?:-([a-z]{3}))? (\d{2}):(\d{2})-(\d{2}):(\d{2})", re.ASCII)
FORM = '"mon-fri 18:00-08:00" or "sat 00:00-24:00"'


@dataclass(frozen=True, slots=True)
class OpenHours:
    """Minutes after midnight of each of its days; ``end`` beyond the day leads into the next one."""

    days: frozenset[int]
    begin: int
    end: int


def parse_window(text: str) -> OpenHours:
    """Raises ``ValueError``."""
    found = _WINDOW.fullmatch(text.strip().lower())
    if found is None or not {found[1], found[2] or found[1]} <= set(DAYS):
        raise ValueError(f"not hours of days: {text!r} (write them as {FORM})")
    first, last = DAYS.index(found[1]), DAYS.index(found[2] or found[1])
    begin, end = (int(found[at]) * 60 + int(found[at + 1]) for at in (3, 5))
    if int(found[4]) > 59 or int(found[6]) > 59 or begin >= DAY_MINUTES or end > DAY_MINUTES or begin == end:
        raise ValueError(f"not times of a day: {text!r} (write them as {FORM})")
    days = frozenset((first + at) % 7 for at in range((last - first) % 7 + 1))
    return OpenHours(days, begin, end if end > begin else end + DAY_MINUTES)


def open_until(windows: Sequence[OpenHours], zone: ZoneInfo, now: datetime) -> datetime | None:
    """Until when it is open, in UTC; ``now`` itself if it is closed. None: it never closes.

    A time that a change of the clocks leaves out, or has twice, counts as the zone's own rules read it.
    """
    if not windows:
        return None
    local = now.astimezone(zone).replace(tzinfo=None)
    end = local
    while end - local < timedelta(days=8):
        later = max((close for close in _closings(windows, end) if close > end), default=end)
        if later == end:
            return now if end == local else end.replace(tzinfo=zone).astimezone(UTC)
        end = later
    return None


def _closings(windows: Sequence[OpenHours], at: datetime) -> list[datetime]:
    """Of the windows that are open at ``at``, local time."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    begun = ((midnight - timedelta(days=back), window) for window in windows for back in (0, 1))
    return [
        day + timedelta(minutes=window.end)
        for day, window in begun
        if day.weekday() in window.days and day + timedelta(minutes=window.begin) <= at
    ]
