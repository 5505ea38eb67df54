"""What one market's answers say of the time, in their ``Date`` header."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.providers.reading import Reply

_STEP = timedelta(seconds=1)
"""In which the header counts."""


class ReportedTimes:
    """Keeps the newest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.newest: ReportedTime | None = None

    def note(self, reply: Reply, asked_at: datetime) -> Reply:
        """Returns ``reply`` unchanged. Its date may be any instant since the question: its latency is unknown."""
        now, told = self._clock.now(), _read(reply.date)
        if told is not None:
            ahead = max(told - now, timedelta(0)) or min(told + _STEP - asked_at, timedelta(0))
            self.newest = ReportedTime(ahead, now)
        return reply


def date_of(headers: Mapping[str, str]) -> str | None:
    """None if a cache on the way has kept the answer: its date is an old one then."""
    return None if "Age" in headers else headers.get("Date")


def _read(text: str | None) -> datetime | None:
    try:
        return None if text is None else parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        return None
