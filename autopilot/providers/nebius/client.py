"""Requests to the market: paced, reads repeated, lists read to their end, changes sent once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from nebius.aio.client import Client
from nebius.api.nebius.common.v1 import Operation

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers.nebius import outcomes
from autopilot.providers.nebius.pacing import INTERVAL_S, Family, lanes
from autopilot.providers.nebius.reply import ErrorDetail, Fault, MarketRefused, Refusal
from autopilot.providers.nebius.sdk import Sdk, failure_of
from autopilot.providers.pacing import Lane, Quiet
from autopilot.providers.reading import READ_TRIES, read_repeatedly
from autopilot.providers.remarks import RemarkLog

PAGE_ROWS = 100
"""Asked for; more than that may come."""
MOST_PAGES = 50
"""A list that goes on beyond is not believed."""
MOST_PAGE_ROWS = 1000
"""More rows than that on one page is no page."""
LONGEST_TOKEN = 4096
WATCH_EVERY_S = 3.0

M = TypeVar("M")
T = TypeVar("T")


class NebiusClient:
    def __init__(self, sdk: Sdk, clock: Clock) -> None:
        self.remarks = RemarkLog(clock)
        self._sdk = sdk
        self._clock = clock
        self._quiet = Quiet(clock, INTERVAL_S)
        self._lanes = lanes(clock, self._quiet)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def get(self, family: Family, service: type[Client], method: str, request: object, expected: type[M]) -> M:
        """Answer of a read. Raises ``MarketUnknown``."""
        return await self._read(family, lambda: self._sdk.read(service, method, request, expected))

    async def operation(self, service: type[Client], operation_id: str) -> Operation:
        """Raises ``MarketUnknown``."""
        return await self._read(Family.WATCH, lambda: self._sdk.operation(service, operation_id))

    async def _read(self, family: Family, send: Callable[[], Awaitable[T]]) -> T:
        async def ask() -> T | Refusal:
            async with self.lane(family):
                try:
                    return await self._try(family, send)
                except MarketRefused as error:
                    return error.refusal

        def judge(answer: T | Refusal) -> T:
            if isinstance(answer, Refusal):
                raise MarketUnknown(answer.summary, outcomes.CODES.get(answer.fault))
            return answer

        # A refusal is no hiccup, and under a limit who asks at once again keeps it up.
        return await read_repeatedly(ask, judge, lambda answer, error: None, self._clock, READ_TRIES)

    async def rows(
        self,
        family: Family,
        service: type[Client],
        ask: Callable[[str], object],
        expected: type[M],
        method: str = "list",
        most_pages: int = MOST_PAGES,
    ) -> list[Any]:
        """All rows of a list, page by page. ``ask``: the request for a page, by its token.

        Raises ``MarketUnknown``: also for a list that does not end.
        """
        found: list[Any] = []
        seen = {""}
        token = ""
        for _ in range(most_pages):
            page: Any = await self.get(family, service, method, ask(token), expected)
            rows = list(page.items)
            if len(rows) > MOST_PAGE_ROWS:
                raise MarketUnknown(f"a page of {len(rows)} rows is no page")
            found += rows
            token = page.next_page_token
            if not token:
                return found
            if len(token) > LONGEST_TOKEN or token in seen:
                raise MarketUnknown("the list goes in a circle, or on in a way that is not known")
            seen.add(token)
        raise MarketUnknown(f"the list has more than {most_pages} pages")

    async def change(
        self, service: type[Client], method: str, request: object, key: str, family: Family = Family.CHANGE
    ) -> Operation:
        """One attempt, in its turn. Raises ``NoReply`` and ``MarketRefused``."""
        async with self.lane(family):
            return await self.send(service, method, request, key, family)

    async def send(self, service: type[Client], method: str, request: object, key: str, family: Family) -> Operation:
        """One attempt without waiting for a turn: the caller is in the lane. Raises ``NoReply``, ``MarketRefused``."""
        return await self._try(family, lambda: self._sdk.change(service, method, request, key))

    async def finish(self, service: type[Client], operation: Operation, within_s: float) -> Operation:
        """The operation once it is over, or as it was seen last. Raises ``MarketRefused`` if it failed."""
        until = self._clock.monotonic() + within_s
        while operation.status is None and self._clock.monotonic() < until:
            await self.pause()
            try:
                operation = await self.operation(service, operation.id)
            except MarketUnknown:
                continue
        failure = failure_of(operation)
        if failure is not None:
            raise MarketRefused(failure)
        return operation

    async def pause(self) -> None:
        """Between two looks at something that is under way."""
        await self._clock.sleep(WATCH_EVERY_S)

    async def _try(self, family: Family, send: Callable[[], Awaitable[T]]) -> T:
        """Nothing is sent while the market is to be left alone: it does not say for how long. Raises what ``send``
        does."""
        if self._quiet.left_s(family):
            raise MarketRefused(
                Refusal("RESOURCE_EXHAUSTED", self._quiet.words(family), (ErrorDetail("too_many_requests"),))
            )
        try:
            answer = await send()
        except MarketRefused as error:
            if error.refusal.fault is Fault.RATE_LIMITED:
                self._quiet.refuse(family)
            elif error.refusal.fault is not Fault.TRANSIENT:
                self._quiet.succeed(family)
            self.remarks.add_refusal(outcomes.CODES.get(error.refusal.fault), error.refusal.summary)
            raise
        self._quiet.succeed(family)
        return answer

    async def close(self) -> None:
        await self._sdk.close()
