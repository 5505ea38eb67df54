"""Requests to the market: paced, reads repeated, lists read to their end, changes sent once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers import values
from autopilot.providers.drift.comparison import MOST_ROWS
from autopilot.providers.drift.counter import DriftCounter
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.mithril import mapping, outcomes, shapes, wire
from autopilot.providers.mithril.pacing import INTERVAL_S, Family, lanes
from autopilot.providers.mithril.reply import Answer, Fault, understand
from autopilot.providers.mithril.transport import Transport
from autopilot.providers.pacing import Lane, Quiet
from autopilot.providers.reading import FIRST_BACKOFF_S, READ_TRIES, Reply, read_repeatedly
from autopilot.providers.remarks import RemarkLog
from autopilot.providers.reported_time import ReportedTimes

PAGE_ROWS = 100
"""Asked for; more than that may come."""
MOST_PAGES = 50
"""A longer list is not believed. Bids that have ended stay listed, for an unknown time."""
SHORT_PAGES = 5
"""So much of a list is read whole; of a longer one only what is live is asked for."""
LONG_FOR_S = 3600.0
"""A list that was long is not tried whole again before."""
MOST_PAGE_ROWS = 1000
"""More rows than that on one page is no page."""
LONGEST_CURSOR = 1024
CURSOR = "next_cursor"
CATALOGUES = (shapes.TYPE, shapes.AUCTION, shapes.NAMED)
CATALOGUE_NAMES = ("data", "instance_types", "auctions", "availability")
"""Under which a list may stand that others have seen bare."""


@dataclass(frozen=True, slots=True)
class LiveRows:
    """``is_whole`` False: only those in words that are known to be live were asked for."""

    rows: list[Any]
    is_whole: bool


class MithrilClient:
    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.drift = DriftCounter(mapping.PROVIDER, clock)
        self.remarks = RemarkLog(clock)
        self.times = ReportedTimes(clock)
        self._transport = transport
        self._clock = clock
        self._quiet = Quiet(clock, INTERVAL_S)
        self._long: dict[str, float] = {}
        """Path of a list that is too long to be read whole, and when it was found to be."""
        self._lanes = lanes(clock, self._quiet)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def get(
        self, family: Family, path: str, shape: AnswerShape, parameters: Mapping[str, str] | None = None
    ) -> Any:
        """Body of a read. ``shape``: of it, or of each row where it is a bare list. Raises ``MarketUnknown``."""

        async def ask() -> Answer:
            async with self.lane(family):
                return await self.send(family, "GET", path, shape, parameters=parameters)

        return (await read_repeatedly(ask, outcomes.read, _pause_s, self._clock, READ_TRIES)).body

    async def rows(
        self,
        family: Family,
        path: str,
        shape: AnswerShape,
        parameters: Mapping[str, str] | None = None,
        names: tuple[str, ...] = ("data",),
    ) -> list[Any]:
        """All rows of a list, page by page; each page has them under one of ``names``, or bare where it is a catalogue.

        Raises ``MarketUnknown``: also for a list that does not end.
        """
        found, goes_on = await self.first_rows(family, path, shape, parameters, names)
        if goes_on:
            raise MarketUnknown(f"{path}: the list has more than {MOST_PAGES} pages")
        return found

    async def first_rows(
        self,
        family: Family,
        path: str,
        shape: AnswerShape,
        parameters: Mapping[str, str] | None = None,
        names: tuple[str, ...] = ("data",),
        most_pages: int = MOST_PAGES,
    ) -> tuple[list[Any], bool]:
        """Rows of so many pages, and whether the list continues after them. Raises ``MarketUnknown``."""
        found: list[Any] = []
        seen: set[str] = set()
        wish = dict(parameters or {})
        for _ in range(most_pages):
            body = await self.get(family, path, shape, wish)
            # An empty list says that nothing of ours is there: only catalogues have been seen without their object.
            is_bare = isinstance(body, list) and shape not in CATALOGUES
            rows = None if is_bare else wire.rows(body, *names)
            if rows is None or len(rows) > MOST_PAGE_ROWS:
                raise MarketUnknown(f"{path}: the answer holds no list")
            found += rows
            cursor = values.mapping(body).get(CURSOR)
            if cursor is None or cursor == "":
                return found, False
            if not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR:
                raise MarketUnknown(f"{path}: the list continues in an unknown way")
            if cursor in seen:
                raise MarketUnknown(f"{path}: the list goes in a circle")
            seen.add(cursor)
            wish[CURSOR] = cursor
        return found, True

    async def live_rows(
        self, path: str, shape: AnswerShape, parameters: Mapping[str, str], live: tuple[str, ...]
    ) -> LiveRows:
        """The rows of a list in which what is over stays: all of them, or those whose status is in ``live`` where they
        are many. A row that changes meanwhile may be missing from the second. Raises ``MarketUnknown``."""
        long_since = self._long.get(path)
        if long_since is None or self._clock.monotonic() - long_since >= LONG_FOR_S:
            found, goes_on = await self.first_rows(Family.LIST, path, shape, parameters, most_pages=SHORT_PAGES)
            if not goes_on:
                self._long.pop(path, None)
                return LiveRows(found, is_whole=True)
            self._long[path] = self._clock.monotonic()
        by_id: dict[str, Any] = {}
        for word in live:
            rows = await self.rows(Family.LIST, path, shape, {**parameters, "status": word})
            # One that has changed its status meanwhile comes twice: the newer is the later.
            by_id |= {repr(values.mapping(row).get("fid")): row for row in rows}
        return LiveRows(list(by_id.values()), is_whole=False)

    async def change(self, method: str, path: str, shape: AnswerShape, body: Mapping[str, Any] | None = None) -> Answer:
        """One attempt, in its turn. Raises ``NoReply``."""
        async with self.lane(Family.CHANGE):
            return await self.send(Family.CHANGE, method, path, shape, body=body)

    async def send(
        self,
        family: Family,
        method: str,
        path: str,
        shape: AnswerShape,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One attempt without waiting for a turn: the caller is in the lane. Raises ``NoReply``."""
        if quiet_s := self._quiet.left_s(family):
            return understand(Reply(429, json.dumps({"detail": self._quiet.words(family)}), f"{quiet_s:.0f}"))
        asked_at = self._clock.now()
        reply = await self._transport.send(method, path, parameters=parameters, body=body, headers=headers)
        answer = understand(self.times.note(reply, asked_at))
        fault = answer.fault
        if answer.status == 429:
            self._quiet.refuse(family, answer.retry_after_s)
        elif answer.status < 500:
            self._quiet.succeed(family)
        if answer.is_json and answer.status < 500 and answer.status != 204:
            self._compare(shape if fault is None else shapes.REFUSAL, answer.body)
        if fault is not None:
            self.remarks.add_refusal(outcomes.CODES.get(fault), answer.summary)
        return answer

    def _compare(self, shape: AnswerShape, body: Any) -> None:
        """A catalogue has the shape of its rows, for it may be a bare list."""
        rows = wire.rows(body, *CATALOGUE_NAMES) if shape in CATALOGUES else None
        for row in (body,) if rows is None else rows[:MOST_ROWS]:
            self.drift.look(shape, row)

    async def close(self) -> None:
        await self._transport.close()


def _pause_s(answer: Answer, error: MarketUnknown) -> float | None:
    """After a gateway's hiccup, or a torn body. Never under a limit: who asks at once again keeps it up."""
    return FIRST_BACKOFF_S if answer.fault is Fault.TRANSIENT else None
