"""Events as they come: in pages, in pages that wait for the next one, and as a stream (server-sent events).

One look at the ledger a second serves all who follow, however many they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aiohttp import web

from autopilot.api import render
from autopilot.api.access import ApiCaller
from autopilot.api.callers import caller_of
from autopilot.api.requests import whole
from autopilot.domain.errors import UserError
from autopilot.ports.store import EventRecord, Store, StoreUnavailable

STREAM = "text/event-stream"
LOOK_EVERY_S = 1.0
KEEP_ALIVE_S = 15.0
"""A stream that has nothing to say says so this often: whoever has gone is found out by it."""
LONGEST_WAIT_S = 60
FOLLOWERS = 256
"""At once."""
MOST_PAGES = 50
"""Read for one answer, where a token's own events are few among many."""
_OWNERS_KNOWN = 4096


class TooManyFollow(UserError):
    """There is no room for one more who follows."""


class Page(NamedTuple):
    records: Sequence[EventRecord]
    after: int
    """Where the next page begins: others' events, which are not in this one, may lie before that."""


@dataclass(eq=False, slots=True)
class _Follower:
    after: int
    news: asyncio.Event = field(default_factory=asyncio.Event)


class EventFeed:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: OrderedDict[str, int | None] = OrderedDict()
        self._followers: set[_Follower] = set()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """``after`` or ``Last-Event-ID``: the last that is known. ``wait_s``: how long to wait for a first one."""
        known = request.headers.get("Last-Event-ID") or request.query.get("after", "0")
        after, caller = whole(known, "after"), caller_of(request)
        if STREAM in request.headers.get("Accept", ""):
            return await self._stream(request, caller, after)
        wait_s = min(whole(request.query.get("wait_s", "0"), "wait_s"), LONGEST_WAIT_S)
        page = await self._read(caller, after)
        if wait_s and not page.records:
            page = await self._wait(caller, page.after, wait_s)
        return web.json_response({"events": [render.event(record) for record in page.records], "after": page.after})

    async def close(self, _: web.Application) -> None:
        """Nobody who follows keeps the daemon from ending."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
        for follower in self._followers:
            follower.news.set()

    async def _read(self, caller: ApiCaller, after: int) -> Page:
        """The next that the caller may see."""
        for _ in range(MOST_PAGES):
            async with self._store.snapshot() as uow:
                records = await uow.events.list_after(after)
            if not records:
                break
            after = records[-1].seq
            seen = [record for record in records if caller.sees_all or await self._owner_of(record) == caller.owner]
            if seen:
                return Page(seen, after)
        return Page((), after)

    async def _wait(self, caller: ApiCaller, after: int, wait_s: float) -> Page:
        with self._following(after) as follower, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not self._is_closed:
                    await follower.news.wait()
                    page = await self._read(caller, follower.after)
                    follower.after = page.after
                    follower.news.clear()
                    if page.records:
                        return page
        return Page((), follower.after)

    async def _stream(self, request: web.Request, caller: ApiCaller, after: int) -> web.StreamResponse:
        with self._following(after) as follower:
            answer = web.StreamResponse(headers={"Content-Type": STREAM, "Cache-Control": "no-store"})
            await answer.prepare(request)
            with contextlib.suppress(ConnectionError):  # whoever followed has gone
                await self._send(answer, caller, follower)
            return answer

    async def _send(self, answer: web.StreamResponse, caller: ApiCaller, follower: _Follower) -> None:
        await answer.write(b": follow with Last-Event-ID\n\n")
        while not self._is_closed:
            page = await self._read(caller, follower.after)
            follower.after = page.after
            if page.records:
                await answer.write(b"".join(map(_frame, page.records)))
                continue
            follower.news.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await follower.news.wait()
            except TimeoutError:
                await answer.write(b":\n\n")

    @contextlib.contextmanager
    def _following(self, after: int) -> Iterator[_Follower]:
        """Raises ``TooManyFollow``."""
        if len(self._followers) >= FOLLOWERS:
            raise TooManyFollow(f"{FOLLOWERS} follow the events already", hint="ask for pages, with after")
        follower = _Follower(after)
        self._followers.add(follower)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="events")
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            if not self._followers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            waiting = [follower for follower in self._followers if not follower.news.is_set()]
            if not waiting:
                continue
            with contextlib.suppress(StoreUnavailable):  # it is said by the tick
                async with self._store.snapshot() as uow:
                    found = await uow.events.list_after(min(each.after for each in waiting), limit=1)
                if found:
                    for follower in waiting:
                        follower.news.set()

    async def _owner_of(self, record: EventRecord) -> int | None:
        """None: it concerns no job."""
        if record.job_id is None:
            return None
        if record.job_id not in self._owners:
            async with self._store.snapshot() as uow:
                job = await uow.jobs.find(record.job_id)
            self._owners[record.job_id] = None if job is None else job.owner
            while len(self._owners) > _OWNERS_KNOWN:
                self._owners.popitem(last=False)
        return self._owners[record.job_id]


def _frame(record: EventRecord) -> bytes:
    data = json.dumps(render.event(record))
    return f"id: {record.seq}\nevent: {record.name}\ndata: {data}\n\n".encode()
