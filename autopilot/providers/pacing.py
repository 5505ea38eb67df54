"""Keeps requests to a market apart, in market time."""

from __future__ import annotations

import asyncio
from types import TracebackType

from autopilot.ports.clock import Clock


class Lane:
    """One request at a time, with a pause between the end of one and the start of the next.

    Counting from the end, the distance holds at the market's side too, whatever the network does in between.
    """

    def __init__(self, interval_s: float, clock: Clock) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._turn = asyncio.Lock()
        self._free_at = clock.monotonic()

    async def __aenter__(self) -> Lane:
        await self._turn.acquire()
        try:
            while (wait_s := self._free_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(wait_s)
        except BaseException:
            self._turn.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold(self._interval_s)
        self._turn.release()

    def hold(self, seconds: float) -> None:
        """Let nothing through for that long."""
        self._free_at = max(self._free_at, self._clock.monotonic() + seconds)
