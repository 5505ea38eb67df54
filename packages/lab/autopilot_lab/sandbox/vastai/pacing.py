"""Rate limits, on the market's clock: a minimum interval per endpoint family and key, and a daily quota of rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from autopilot_lab.sandbox.units import start_of_day, utc_day
from autopilot_lab.sandbox.vastai.replies import HttpReply, search_quota_exceeded, too_frequent

MIN_INTERVAL_S = {
    "search": 0.2,
    "list": 1.0,
    "show": 2.0,
    "state": 1.0,
    "destroy": 3.0,
    "create": 4.5,
    "bid": 5.5,
    "logs": 1.0,
    "execute": 1.5,
    "charges": 1.0,
    "invoices": 3.0,
}
_PENALTY_S = {"create": 12.0}
"""Calling too early here closes the endpoint for this long."""


class Pacing:
    def __init__(self) -> None:
        self._free_at: dict[tuple[str, str], datetime] = {}

    def refuse(self, family: str, identity: str, now: datetime) -> HttpReply | None:
        """The 429 that this call gets, or ``None`` when it may pass; either way it is counted."""
        interval_s = MIN_INTERVAL_S.get(family)
        if interval_s is None:
            return None
        key = (family, identity)
        if now < self._free_at.get(key, now):
            if family in _PENALTY_S:
                self._free_at[key] = now + timedelta(seconds=_PENALTY_S[family])
            return too_frequent(interval_s)
        self._free_at[key] = now + timedelta(seconds=interval_s)
        return None


class RowQuota:
    """Rows that searches may return per UTC day."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._day: date | None = None
        self._used = 0

    def refuse(self, now: datetime) -> HttpReply | None:
        if utc_day(now) != self._day:
            self._day, self._used = utc_day(now), 0
        return self.refusal(now) if self._used >= self._limit else None

    def refusal(self, now: datetime) -> HttpReply:
        midnight = start_of_day(utc_day(now) + timedelta(days=1))
        remaining = max(self._limit - self._used, 0)
        return search_quota_exceeded(self._limit, remaining, int((midnight - now).total_seconds()))

    def count(self, rows: int) -> None:
        self._used += rows
