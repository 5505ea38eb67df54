"""A job's output: in pages, and as a stream that ends with the job (server-sent events)."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from autopilot import render
from autopilot.answers.models.jobs import LogsQuery
from autopilot.api.callers import StillAllowed, caller_of, job_ref
from autopilot.api.followers import Followers
from autopilot.api.jobs import JobService
from autopilot.api.requests import has_hung_up, read_query
from autopilot.api.streams import KEEP_ALIVE, KEEP_ALIVE_S, begin_stream, frame, wants_stream
from autopilot.domain.errors import UserError
from autopilot.ports.blobs import BlobUnavailable
from autopilot.ports.store import StoreUnavailable

LOOK_EVERY_S = 2.0
FOLLOWERS = 64
"""At once: each look at a job's output is one at the mailbox."""
FOLLOWERS_OF_AN_OWNER = 16


class LogFeed:
    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs
        self._followers = Followers("the output of jobs")
        self._closing = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """``Last-Event-ID`` of a stream is the key of the last chunk that is known, as ``after`` of a page."""
        query = read_query(request, LogsQuery)
        after = request.headers.get("Last-Event-ID") or query.after
        page = await self._jobs.logs.read(job_ref(request), after, tail=query.tail)
        if not wants_stream(request):
            return web.json_response(page)
        with self._followers.count(caller_of(request).owner, FOLLOWERS, FOLLOWERS_OF_AN_OWNER):
            answer = await begin_stream(request)
            with contextlib.suppress(ConnectionError, UserError):  # the follower has gone, or lost the right to it
                await self._send(request, answer, page, after)
            return answer

    async def close(self, _: web.Application) -> None:
        """A follower must not keep the daemon from ending."""
        self._closing.set()

    async def _send(self, request: web.Request, answer: web.StreamResponse, page: render.Json, after: str) -> None:
        """``page``: the first that there is."""
        quiet_s, allowed = 0.0, StillAllowed(request)
        while not (self._closing.is_set() or has_hung_up(request)):
            await allowed.check()
            chunks = page["chunks"]
            for chunk in chunks:
                after = chunk["key"]
                await answer.write(frame("log", chunk, after))
            if not chunks and page["finished"]:
                await answer.write(frame("end", {}))
                return
            if not chunks:
                quiet_s += LOOK_EVERY_S
                await self._pause()
            if quiet_s >= KEEP_ALIVE_S:
                quiet_s = 0.0
                await answer.write(KEEP_ALIVE)
            with contextlib.suppress(BlobUnavailable, StoreUnavailable):  # it is said by the tick
                page = await self._jobs.logs.read(job_ref(request), after)

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await self._closing.wait()
