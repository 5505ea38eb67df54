"""The three clocks that ship: the system's, a scaled one for the sandbox and the demo, one set by hand.

``market_now = origin + (unix_now - origin) * speed``.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta

from autopilot.system import CLOCK_WITH_SLEEP


class SystemClock:
    """The wall clock as it was at the start, carried on by the time since boot (sleep included).

    A later step of the wall clock, by NTP or by hand, moves nothing: leases would expire and permits lapse for it.
    """

    speed = 1.0

    def __init__(self) -> None:
        self._started_at = datetime.now(UTC)
        self._boot_s = self.monotonic()

    def now(self) -> datetime:
        return self._started_at + timedelta(seconds=self.monotonic() - self._boot_s)

    def monotonic(self) -> float:
        return time.clock_gettime(CLOCK_WITH_SLEEP)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


class ScaledClock:
    """Stateless: two processes that share ``origin`` and ``speed`` agree on the time."""

    def __init__(self, origin: datetime, speed: float) -> None:
        if speed <= 0:
            raise ValueError("speed must be positive")
        self.origin = origin
        self.speed = speed

    def now(self) -> datetime:
        return self.origin + (datetime.now(UTC) - self.origin) * self.speed

    def monotonic(self) -> float:
        return time.monotonic() * self.speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0) / self.speed)


class ManualClock:
    """Time moves only by ``advance``; sleepers wake in order. For tests."""

    speed = 1.0

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + max(seconds, 0), next(self._order), wake))
        await wake

    def advance(self, seconds: float) -> None:
        target = self._elapsed_s + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, wake = heapq.heappop(self._sleepers)
            self._elapsed_s = max(self._elapsed_s, due)
            if not wake.done():
                wake.set_result(None)
        self._elapsed_s = target
