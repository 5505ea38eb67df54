"""Keeps to the market's request limits, in market time: one lane per endpoint family."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from types import TracebackType

from autopilot.ports.clock import Clock

MARGIN = 1.2
"""We keep this much more distance than the market asks for."""


class Family(StrEnum):
    LIST = "list"
    SHOW = "show"
    STATE = "state"
    DESTROY = "destroy"
    CREATE = "create"
    BID = "bid"
    SEARCH = "search"
    CHARGES = "charges"
    USER = "user"


INTERVAL_S = {
    Family.LIST: 1.0,
    Family.SHOW: 2.0,
    Family.STATE: 1.0,
    Family.DESTROY: 3.0,
    Family.CREATE: 4.5,
    Family.BID: 5.5,
    Family.SEARCH: 0.25,
    Family.CHARGES: 1.0,
    Family.USER: 1.0,
}
"""Smallest distance between two requests that the market accepts. Search and user are observed, not documented."""
PENALTY_S = {Family.CREATE: 12.0}
"""Added by the market once a request came too early."""


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


def lanes(clock: Clock) -> dict[Family, Lane]:
    return {family: Lane(interval_s * MARGIN, clock) for family, interval_s in INTERVAL_S.items()}
