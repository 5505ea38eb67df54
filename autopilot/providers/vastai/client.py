"""Requests to the market: paced, reads repeated, changes sent once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.pacing import Lane
from autopilot.providers.vastai import outcomes
from autopilot.providers.vastai.pacing import INTERVAL_S, MARGIN, PENALTY_S, Family, lanes
from autopilot.providers.vastai.reply import Answer, NoReply, understand
from autopilot.providers.vastai.transport import Transport

READ_TRIES = 3
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 15.0
LONGEST_HOLD_S = 60.0
"""However long the market says to stay away, a destroy has to be tried again."""


class VastaiClient:
    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._lanes = lanes(clock)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def read(
        self,
        family: Family,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        tries: int = READ_TRIES,
    ) -> Mapping[str, Any]:
        """GET, or POST when there is a ``body``. Repeats what failed quickly and may succeed at once.

        Raises ``MarketUnknown``.
        """
        method = "GET" if body is None else "POST"
        backoff_s = FIRST_BACKOFF_S
        for tries_left in reversed(range(tries)):
            try:
                async with self.lane(family):
                    answer = await self.send(family, method, path, query=query, body=body)
            except NoReply as error:
                if not tries_left or error.timed_out:
                    raise MarketUnknown(str(error)) from error
            else:
                try:
                    return outcomes.read(answer)
                except outcomes.SearchQuotaExceeded:
                    raise
                except MarketUnknown as error:
                    if not tries_left or not _passes_soon(answer, error):
                        raise
                    backoff_s = max(backoff_s, (answer.retry_after_s or 0) * MARGIN)
            await self._clock.sleep(backoff_s)
            backoff_s *= 2
        raise AssertionError("the last try returns or raises")

    async def change(self, family: Family, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        """One attempt. Raises ``NoReply``."""
        async with self.lane(family):
            return await self.send(family, method, path, body=body)

    async def send(
        self,
        family: Family,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One attempt without waiting for a turn: the caller is in the lane. Raises ``NoReply``."""
        answer = understand(await self._transport.send(method, path, query=query, body=body))
        if answer.status == 429:
            asked_s = min(answer.retry_after_s or INTERVAL_S[family], LONGEST_HOLD_S)
            self.lane(family).hold((asked_s + PENALTY_S.get(family, 0)) * MARGIN)
        return answer

    def close(self) -> None:
        self._transport.close()


def _passes_soon(answer: Answer, error: MarketUnknown) -> bool:
    """A gateway's hiccup, a torn body, or a limit that lifts within seconds."""
    if error.code is RefusalCode.RATE_LIMITED:
        return (answer.retry_after_s or 0) <= LONGEST_BACKOFF_S
    return error.code is None and (answer.status >= 500 or (answer.status == 200 and answer.body is None))
