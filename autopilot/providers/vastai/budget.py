"""The market returns a fixed number of search rows per UTC day; this keeps count and spreads what is left."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.domain.time import start_of_day, utc_day

WATCHED_SHARE = 0.25
"""Share of the day's rows for floors that are watched although no job has asked for them."""
LEFT_TO_JOBS = 0.125
"""Share of the day's rows, the last ones, that is reserved for jobs."""
DAY_S = 86_400.0


def _next_midnight(now: datetime) -> datetime:
    return start_of_day(utc_day(now) + timedelta(days=1))


class RowBudget:
    """Counts what this process was given; rows that went elsewhere show up as a refusal (``close_until``)."""

    def __init__(self, rows_per_day: int, now: datetime) -> None:
        self._rows_per_day = rows_per_day
        self._used = self._watched = 0
        self._ends_at = _next_midnight(now)
        self._closed_until = now

    def _roll(self, now: datetime) -> None:
        if now >= self._ends_at:
            self._used, self._watched, self._ends_at = 0, 0, _next_midnight(now)

    def allows(self, rows: int, now: datetime) -> bool:
        self._roll(now)
        return now >= self._closed_until and self._used + rows <= self._rows_per_day

    def allows_watching(self, rows: int, now: datetime) -> bool:
        """Whether so many rows may go to what no job has asked for."""
        self._roll(now)
        is_within_share = self._watched + rows <= self._rows_per_day * WATCHED_SHARE
        return is_within_share and self.allows(rows + round(self._rows_per_day * LEFT_TO_JOBS), now)

    def watched_apart_s(self, rows: int) -> float:
        """How far apart searches of so many rows must be for their share to last a day."""
        return rows * DAY_S / (self._rows_per_day * WATCHED_SHARE)

    def spend(self, rows: int, now: datetime, *, watching: bool = False) -> None:
        self._roll(now)
        self._used += rows
        self._watched += rows if watching else 0

    def close_until(self, now: datetime, retry_after_s: float | None) -> None:
        """The market refused: nothing more before it said, or before midnight when it said nothing."""
        self._roll(now)
        until_midnight_s = (self._ends_at - now).total_seconds()
        wait_s = until_midnight_s if retry_after_s is None else min(retry_after_s, until_midnight_s)
        self._closed_until = now + timedelta(seconds=wait_s)

    def sustainable_age_s(self, rows_per_refresh: int, now: datetime) -> float:
        """How far apart refreshes must be for the rest of the day to be covered; 0 while half the rows are left."""
        self._roll(now)
        left = self._rows_per_day - self._used
        if 2 * left >= self._rows_per_day:
            return 0
        return (self._ends_at - now).total_seconds() * rows_per_refresh / max(left, 1)
