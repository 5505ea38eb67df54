"""Requests to the market: paced, reads repeated, changes sent once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers.drift.counter import DriftCounter
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.pacing import Lane, Quiet
from autopilot.providers.reading import READ_TRIES, Reply, read_repeatedly
from autopilot.providers.remarks import RemarkLog
from autopilot.providers.reported_time import ReportedTimes
from autopilot.providers.vastai import mapping, outcomes, shapes
from autopilot.providers.vastai.pacing import INTERVAL_S, MARGIN, PENALTY_S, Family, lanes
from autopilot.providers.vastai.reply import Answer, understand
from autopilot.providers.vastai.transport import Transport


class VastaiClient:
    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.drift = DriftCounter(mapping.PROVIDER, clock)
        self.remarks = RemarkLog(clock)
        self.times = ReportedTimes(clock)
        self._transport = transport
        self._clock = clock
        # The market counts each endpoint by itself.
        self._quiet = Quiet(clock, INTERVAL_S, is_shared=False)
        self._lanes = lanes(clock, self._quiet)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def read(
        self,
        family: Family,
        path: str,
        shape: AnswerShape,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        tries: int = READ_TRIES,
    ) -> Mapping[str, Any]:
        """GET, or POST when there is a ``body``. Repeats what failed quickly and may succeed at once.

        ``shape``: of the body of an answer that is no refusal. Raises ``MarketUnknown``.
        """
        method = "GET" if body is None else "POST"

        async def ask() -> Answer:
            async with self.lane(family):
                return await self.send(family, method, path, shape, query=query, body=body)

        return await read_repeatedly(ask, outcomes.read, _pause_s, self._clock, tries)

    async def change(
        self,
        family: Family,
        method: str,
        path: str,
        body: Mapping[str, Any],
        shape: AnswerShape = shapes.CHANGED,
    ) -> Answer:
        """One attempt. Raises ``NoReply``."""
        async with self.lane(family):
            return await self.send(family, method, path, shape, body=body)

    async def fetch(self, url: str) -> Reply:
        """One attempt at an address that an answer named, without the key. Raises ``NoReply``."""
        return await self._transport.fetch(url)

    async def send(
        self,
        family: Family,
        method: str,
        path: str,
        shape: AnswerShape,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One attempt without waiting for a turn: the caller is in the lane. Raises ``NoReply``."""
        if quiet_s := self._quiet.left_s(family):
            return understand(Reply(429, self._quiet.words(family), f"{quiet_s:.0f}"))
        asked_at = self._clock.now()
        reply = await self._transport.send(method, path, query=query, body=body)
        answer = understand(self.times.note(reply, asked_at))
        if outcomes.is_quota_used_up(answer):
            # That is no matter of how often: the rows have a budget of their own.
            pass
        elif answer.status == 429:
            self._quiet.refuse(family, ((answer.retry_after_s or 0) + PENALTY_S.get(family, 0)) * MARGIN)
        elif answer.status < 500:
            self._quiet.succeed(family)
        if answer.body is not None and answer.status < 500:
            self.drift.look(_shape_of(answer, shape), answer.body)
            self.remarks.add_refusal(outcomes.refusal_code(answer), answer.summary)
        return answer

    def close(self) -> None:
        self._transport.close()


def _shape_of(answer: Answer, expected: AnswerShape) -> AnswerShape:
    """A create that is refused with status 200 has the shape of one that is not: a contract may have come of it."""
    is_refusal = answer.said_no and expected is not shapes.CREATED
    return shapes.REFUSAL if answer.status != 200 or is_refusal else expected


def _pause_s(answer: Answer, error: MarketUnknown) -> float | None:
    """After a gateway's hiccup, or a torn body. Never under a limit: who asks at once again keeps it up."""
    torn = answer.status >= 500 or (answer.status == 200 and answer.body is None)
    return (answer.retry_after_s or 0) * MARGIN if error.code is None and torn else None
