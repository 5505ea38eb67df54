"""When a schedule's firings are due: a cron expression in a time zone, and what holds beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

LONGEST_CRON = 100
"""Characters of an expression."""
MOST_FIRINGS = 100_000
"""``count`` at most."""
MOST_COUNTED = 1000
"""Due instants that are counted one by one; beyond it is said that there were as many or more."""
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366), timedelta(days=366 * 30))
"""The newest due instant is looked for in these, one after another: few are gone through, however long ago it was."""


class Overlap(StrEnum):
    """What becomes of a firing that is due while an earlier one is not over."""

    SKIP = "skip"
    """It is left out."""
    QUEUE = "queue"
    """It waits for that one's end, unless another waits already."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """``[schedule]`` of a job file, and ``[budget] all``."""

    cron: str
    """Five fields, as in crontab(5): minute, hour, day, month, weekday. No two firings are within a minute."""
    zone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    catch_up: bool = False
    """The newest firing that was missed is made up for; others are not."""
    until: datetime | None = None
    """Nothing is due then or later."""
    count: int | None = None
    """Firings in all."""
    budget: Decimal | None = None
    """Dollars that all firings may cost together; None: no more is asked of them than of other jobs."""
    is_monthly: bool = False
    """The budget is one for each UTC month; else it is one for all firings ever."""


def check_zone(name: str) -> ZoneInfo:
    """Raises ``ValueError``."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"not a time zone: {name[:60]!r} (write it as Europe/Berlin)") from None


def check_cron(expression: str) -> str:
    """Raises ``ValueError``."""
    if len(expression) > LONGEST_CRON:
        raise ValueError(f"must have {LONGEST_CRON} characters at most")
    if len(expression.split()) != 5:
        raise ValueError('must have five fields like "0 2 * * *": minute, hour, day, month and weekday')
    try:
        CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as problem:
        raise ValueError(f"not a cron expression: {str(problem).replace('Bad', 'bad')}") from None
    return expression


def list_due(cadence: Cadence, after: datetime, most: int) -> list[datetime]:
    """The next due instants after that one, in UTC and in order, ``most`` of them at most."""
    return list(islice(_iterate(cadence, after), most))


@lru_cache(1024)
def find_next(cadence: Cadence, after: datetime) -> datetime | None:
    """The next due instant after that one, in UTC; None: there is none."""
    return next(_iterate(cadence, after), None)


def find_newest(cadence: Cadence, after: datetime, upto: datetime) -> datetime | None:
    """The newest due instant that is later than ``after`` and not later than ``upto``."""
    for window in _WINDOWS:
        newest = None
        for due in _iterate(cadence, max(after, upto - window)):
            if due > upto:
                break
            newest = due
        if newest is not None or upto - window <= after:
            return newest
    return None


def count_due(cadence: Cadence, after: datetime, before: datetime) -> int:
    """Due instants between the two, neither of them included; ``MOST_COUNTED`` at most."""
    return sum(1 for _ in islice(takewhile(lambda due: due < before, _iterate(cadence, after)), MOST_COUNTED))


def _iterate(cadence: Cadence, after: datetime) -> Iterator[datetime]:
    """In UTC, each later than the one before: where clocks are set back, an hour is there twice and fires once."""
    last = after
    try:
        for local in CronSim(cadence.cron, after.astimezone(ZoneInfo(cadence.zone))):
            due = local.astimezone(UTC)
            if cadence.until is not None and due >= cadence.until:
                return
            if due > last:
                yield due
                last = due
    except OverflowError:
        return  # beyond the calendar
