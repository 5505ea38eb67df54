"""The clock of a simulated host: the product's system clock on virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from tests.simulation.virtual.loop import VirtualLoop

ORIGIN = datetime(2028, 2, 28, 18, 0, tzinfo=UTC)
"""Runs begin here: past a midnight, a leap day and the end of a month they go."""


class HostClock:
    """Wall time as it was when the process began, carried on by the time since boot."""

    speed = 1.0

    def __init__(self, loop: VirtualLoop, wrong_s: float = 0.0) -> None:
        """``wrong_s``: by so much the host's wall clock was wrong when the process began."""
        self._loop = loop
        self._wrong = timedelta(seconds=wrong_s)

    def now(self) -> datetime:
        return at(self._loop.time()) + self._wrong

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


def at(time_s: float) -> datetime:
    """The true wall time."""
    return ORIGIN + timedelta(seconds=time_s)
