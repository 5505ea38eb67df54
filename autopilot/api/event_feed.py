"""Events as they come: in pages, in pages that wait for the next one, and as a stream (server-sent events).

One look at the ledger a second serves all who follow, however many they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from aiohttp import web

from autopilot import render
from autopilot.answers.jobs import Event
from autopilot.answers.models.jobs import EventsQuery
from autopilot.api.access import ApiCaller, Unauthorised
from autopilot.api.callers import StillAllowed, caller_of
from autopilot.api.followers import Followers
from autopilot.api.pages import select_fields
from autopilot.api.requests import has_hung_up, read_query, whole
from autopilot.api.streams import KEEP_ALIVE, KEEP_ALIVE_S, begin_stream, frame, wants_stream
from autopilot.books.periods import instant
from autopilot.ports.clock import Clock
from autopilot.ports.store import EventRecord, Store, StoreUnavailable

LOOK_EVERY_S = 1.0
LONGEST_WAIT_S = 60
FOLLOWERS = 256
"""At once."""
FOLLOWERS_OF_AN_OWNER = 64
MOST_PAGES = 50
"""Read for one answer, where a token's own events are few among many."""
_OWNERS_KNOWN = 4096


class Page(NamedTuple):
    records: Sequence[EventRecord]
    after: int
    """Where the next page begins: others' events, which are not in this one, may lie before that."""


@dataclass(eq=False, slots=True)
class _Follower:
    after: int
    has_gone: Callable[[], bool]
    news: asyncio.Event = field(default_factory=asyncio.Event)


class _Asked(NamedTuple):
    caller: ApiCaller
    since: datetime | None
    fields: str

    def render(self, records: Sequence[EventRecord]) -> list[render.Json]:
        """Raises ``UserError``."""
        return select_fields(map(render.event, records), self.fields, Event)


class EventFeed:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._owners: OrderedDict[str, int | None] = OrderedDict()
        self._followers: set[_Follower] = set()
        self._counted = Followers("the events")
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """``after`` or ``Last-Event-ID``: the last that is known. ``wait_s``: how long to wait for a first one."""
        query, caller = read_query(request, EventsQuery), caller_of(request)
        last = request.headers.get("Last-Event-ID")
        after = whole(last, "Last-Event-ID") if last else query.after
        since = instant(query.since, "since", self._clock.now(), None)
        asked = _Asked(caller, since, query.fields)
        if wants_stream(request):
            return await self._stream(request, asked, after)
        wait_s = min(query.wait_s, LONGEST_WAIT_S)
        page = await self._read(asked, after)
        if wait_s and not page.records:
            page = await self._wait(request, asked, page.after, wait_s)
        return web.json_response({"events": asked.render(page.records), "after": page.after})

    async def close(self, _: web.Application) -> None:
        """A follower must not keep the daemon from ending."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
        for follower in self._followers:
            follower.news.set()

    async def _read(self, asked: _Asked, after: int) -> Page:
        """The next that the caller may see."""
        for _ in range(MOST_PAGES):
            async with self._store.snapshot() as uow:
                records = await uow.events.list_after(after, since=asked.since)
            if not records:
                break
            after = records[-1].seq
            seen = [record for record in records if await self._may_see(asked.caller, record)]
            if seen:
                return Page(seen, after)
        return Page((), after)

    async def _wait(self, request: web.Request, asked: _Asked, after: int, wait_s: float) -> Page:
        with self._following(request, after) as follower, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not (self._is_closed or follower.has_gone()):
                    await follower.news.wait()
                    page = await self._read(asked, follower.after)
                    follower.after = page.after
                    follower.news.clear()
                    if page.records:
                        return page
        return Page((), follower.after)

    async def _stream(self, request: web.Request, asked: _Asked, after: int) -> web.StreamResponse:
        with self._following(request, after) as follower:
            answer = await begin_stream(request)
            with contextlib.suppress(ConnectionError, Unauthorised):  # the follower has gone, or lost the right to it
                await self._send(answer, request, asked, follower)
            return answer

    async def _send(self, answer: web.StreamResponse, request: web.Request, asked: _Asked, follower: _Follower) -> None:
        allowed = StillAllowed(request)
        while not (self._is_closed or follower.has_gone()):
            await allowed.check()
            page = await self._read(asked, follower.after)
            follower.after = page.after
            if page.records:
                rows = zip(page.records, asked.render(page.records), strict=True)
                await answer.write(b"".join(frame(record.name, row, record.seq) for record, row in rows))
                continue
            follower.news.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await follower.news.wait()
            except TimeoutError:
                await answer.write(KEEP_ALIVE)

    @contextlib.contextmanager
    def _following(self, request: web.Request, after: int) -> Iterator[_Follower]:
        """Raises ``TooManyFollow``."""
        with self._counted.count(caller_of(request).owner, FOLLOWERS, FOLLOWERS_OF_AN_OWNER):
            follower = _Follower(after, lambda: has_hung_up(request))
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
            for follower in waiting:
                if follower.has_gone():
                    follower.news.set()  # who has hung up makes room for others
            if not waiting:
                continue
            with contextlib.suppress(StoreUnavailable):  # it is said by the tick
                async with self._store.snapshot() as uow:
                    found = await uow.events.list_after(min(each.after for each in waiting), limit=1)
                if found:
                    for follower in waiting:
                        follower.news.set()

    async def _may_see(self, caller: ApiCaller, record: EventRecord) -> bool:
        return caller.sees_all or await self._owner_of(record) == caller.owner

    async def _owner_of(self, record: EventRecord) -> int | None:
        """None: it concerns no job and no schedule."""
        if record.job_id is None:
            owner = dict(record.fields).get("owner") if record.name.startswith("schedule.") else None
            return owner if isinstance(owner, int) else None
        if record.job_id not in self._owners:
            async with self._store.snapshot() as uow:
                job = await uow.jobs.find(record.job_id)
            self._owners[record.job_id] = None if job is None else job.owner
            while len(self._owners) > _OWNERS_KNOWN:
                self._owners.popitem(last=False)
        return self._owners[record.job_id]
