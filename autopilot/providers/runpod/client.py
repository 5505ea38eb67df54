"""Requests to the market: paced, reads repeated, changes sent once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, TypeVar

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.drift.counter import DriftCounter
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.pacing import Lane, Quiet
from autopilot.providers.reading import READ_TRIES, Reply, read_repeatedly
from autopilot.providers.remarks import RemarkLog
from autopilot.providers.reported_time import ReportedTimes
from autopilot.providers.runpod import mapping, outcomes, shapes
from autopilot.providers.runpod.pacing import INTERVAL_S, Family, lanes
from autopilot.providers.runpod.reply import Answer, Fault, understand
from autopilot.providers.runpod.sdk import SdkRefused
from autopilot.providers.runpod.transport import Transport

T = TypeVar("T")


class RunpodClient:
    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.transport = transport
        self.drift = DriftCounter(mapping.PROVIDER, clock)
        self.remarks = RemarkLog(clock)
        self.times = ReportedTimes(clock)
        self._clock = clock
        self._quiet = Quiet(clock, INTERVAL_S)
        self._lanes = lanes(clock, self._quiet)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def query(
        self, document: str, shape: AnswerShape, variables: Mapping[str, Any] | None = None, *, tries: int = READ_TRIES
    ) -> Mapping[str, Any]:
        """``data`` of a GraphQL query. ``shape``: of the whole body. Raises ``MarketUnknown``, ``Withdrawn``."""
        body = await self._read(Family.GRAPHQL_READ, lambda: self.graphql(document, shape, variables), tries)
        data = body.get("data")
        if not isinstance(data, dict):
            raise MarketUnknown("the answer holds no data")
        return data

    async def get(
        self, path: str, shape: AnswerShape, parameters: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Body of a REST read. Raises ``MarketUnknown``, ``Withdrawn``."""
        return await self._read(
            Family.REST_READ, lambda: self.rest("GET", path, shape, parameters=parameters), READ_TRIES
        )

    async def by_sdk(self, family: Family, ask: Callable[[], Awaitable[T]]) -> T:
        """One call of the SDK, in its turn. Raises ``SdkRefused``, ``NoReply``."""
        async with self.lane(family):
            if self._quiet.left_s(family):
                raise SdkRefused(self._quiet.words(family), Fault.RATE_LIMITED)
            try:
                return await ask()
            except SdkRefused as refused:
                self.remarks.add_refusal(outcomes.CODES.get(refused.fault), str(refused))
                raise

    async def graphql(self, document: str, shape: AnswerShape, variables: Mapping[str, Any] | None = None) -> Answer:
        """One attempt without waiting for a turn. Raises ``NoReply``."""
        body = {"query": document, "variables": dict(variables or {})}
        answer = understand(await self._exchange("POST", "/graphql", None, body))
        refusal = shapes.GRAPHQL_REFUSAL if answer.has_errors else shapes.REST_REFUSAL
        self._compare(answer, refusal if answer.has_errors or answer.status >= 300 else shape)
        self._remark(answer, (RefusalCode.NO_RIGHTS, RefusalCode.RATE_LIMITED))
        return answer

    async def rest(
        self,
        method: str,
        path: str,
        shape: AnswerShape,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One attempt without waiting for a turn; ``path`` beneath ``/v2``. Raises ``NoReply``."""
        answer = understand(await self._exchange(method, f"/v2{path}", parameters, body))
        self._compare(answer, shape if answer.status < 300 else shapes.REST_REFUSAL)
        self._remark(answer, (RefusalCode.NO_RIGHTS,))
        return answer

    async def _exchange(
        self, method: str, path: str, parameters: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        """Raises ``NoReply``."""
        asked_at = self._clock.now()
        return self.times.note(await self.transport.send(method, path, parameters=parameters, body=body), asked_at)

    def _compare(self, answer: Answer, shape: AnswerShape) -> None:
        """Not of an answer that may be a gateway's, or a failure's."""
        if answer.body is not None and answer.status < 500:
            self.drift.look(shape, answer.body)

    def _remark(self, answer: Answer, weighed: Container[RefusalCode]) -> None:
        """The limits of REST are published; those of GraphQL are assumed, so only theirs are weighed."""
        code = outcomes.CODES.get(answer.fault) if answer.fault is not None else None
        if code is not None and code in weighed:
            self.remarks.add_refusal(code, answer.summary)

    async def _read(self, family: Family, ask: Callable[[], Awaitable[Answer]], tries: int) -> Mapping[str, Any]:
        return await read_repeatedly(lambda: self.attempt(family, ask), outcomes.read, _pause_s, self._clock, tries)

    async def attempt(self, family: Family, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """One attempt, in its turn. Raises ``NoReply``."""
        async with self.lane(family):
            return await self.send(family, ask)

    async def send(self, family: Family, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """One attempt without waiting for a turn: the caller is in the lane. Raises ``NoReply``."""
        if quiet_s := self._quiet.left_s(family):
            return understand(Reply(429, json.dumps({"error": self._quiet.words(family)}), f"{quiet_s:.0f}"))
        answer = await ask()
        if answer.status == 429:
            self._quiet.refuse(family, answer.retry_after_s)
        elif answer.status < 500:
            self._quiet.succeed(family)
        return answer

    async def listen(self, family: Family, path: str, parameters: Mapping[str, str]) -> Reply | None:
        """What a stream has to say at first, in its turn; None while nothing is asked. Raises ``NoReply``."""
        async with self.lane(family):
            if self._quiet.left_s(family):
                return None
            reply = await self.transport.listen(path, parameters)
            if reply.status == 429:
                self._quiet.refuse(family)
            return reply

    async def close(self) -> None:
        await self.transport.close()


def _pause_s(answer: Answer, error: MarketUnknown) -> float | None:
    """After a gateway's hiccup, or a torn body. Never under a limit: who asks at once again keeps it up."""
    return answer.retry_after_s or 0 if answer.fault is Fault.TRANSIENT else None
