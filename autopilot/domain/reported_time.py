"""Whether our clock is right, by what the markets' answers say of the time. Nothing is ever set by that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

CLOCK_TOLERANCE = timedelta(minutes=1)
"""A permit lasts a quarter of an hour, and is renewed well before: a minute is no harm to it. Servers that keep their
clocks are within a second of each other, and the way of an answer does not count: an answer is compared with the time
from its question to its arrival."""
REPORTED_FOR = timedelta(minutes=10)
"""How long the time that a market has told counts as its word."""


@dataclass(frozen=True, slots=True)
class ReportedTime:
    ahead: timedelta
    """By how much the market's time was beyond ours; negative: behind it."""
    at: datetime
    """By our clock."""


def find_clock_error(reported: Iterable[ReportedTime | None], now: datetime) -> timedelta | None:
    """By how much all markets that reported the time are ahead of us; None: no evidence against our clock.

    One market that agrees with us is enough for it. Markets that do not agree with each other are no evidence: it is
    unknown which is wrong.
    """
    ahead = sorted(each.ahead for each in reported if each is not None and abs(now - each.at) <= REPORTED_FOR)
    if not ahead or any(abs(each) <= CLOCK_TOLERANCE for each in ahead):
        return None
    return min(ahead, key=abs) if ahead[-1] - ahead[0] <= CLOCK_TOLERANCE else None
