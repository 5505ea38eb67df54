"""Fragments of pages, sent again when they change: rendered once for all who see the same."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from autopilot.domain.errors import UserError
from autopilot.web.daemon_source import DaemonSilent, DaemonSource, SessionEnded

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 2.0
"""Whether the daemon has ticked. What it says then is asked for once, however many wait for it."""
STREAMS = 128
STREAMS_OF_AN_OWNER = 32
"""In all their browsers."""


class TooManyStreams(Exception):
    """There is no room for one more."""


class Silence(NamedTuple):
    """The daemon does not answer."""

    since: datetime
    why: str


class Fragment(NamedTuple):
    id: str
    """A digest of the rest: equal for equal content."""
    html: str
    """Empty while nothing was made yet."""
    silence: Silence | None


@dataclass(eq=False)
class Reader:
    """One stream. ``ask``: the daemon, in its session's name."""

    owner: int
    """Whose session it is."""
    ask: Callable[[], Awaitable[DaemonSource]]
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_ended: bool = False


Build = Callable[[DaemonSource], Awaitable[Any]]
Render = Callable[[Any], str]


class _Shared:
    """What all its readers see."""

    def __init__(self, build: Build, render: Render) -> None:
        self.build = build
        self.render = render
        self.readers: set[Reader] = set()
        self.fragment: Fragment | None = None
        self.task: asyncio.Task[None] | None = None
        self.page: Any = None
        self.mark: object = None
        self.silence: Silence | None = None

    def put(self) -> None:
        html = "" if self.page is None else self.render(self.page)
        digest = hashlib.sha256(f"{self.silence}{html}".encode()).hexdigest()
        made = Fragment(digest[:16], html, self.silence)
        if self.fragment is None or made.id != self.fragment.id:
            self.fragment = made
            for reader in self.readers:
                reader.news.set()


class LiveFragments:
    def __init__(self, wall_clock: Callable[[], datetime], look_every_s: float = LOOK_EVERY_S) -> None:
        self._shared: dict[tuple[str, ...], _Shared] = {}
        self._wall_clock = wall_clock
        self._look_every_s = look_every_s
        self._streams: dict[int, int] = {}
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        for shared in self._shared.values():
            if shared.task is not None:
                shared.task.cancel()
            for reader in shared.readers:
                reader.news.set()

    async def follow(
        self, key: tuple[str, ...], reader: Reader, build: Build, render: Render, known: str, within_s: float
    ) -> AsyncGenerator[Fragment | None]:
        """The fragment when it is another than ``known``, and each that follows; None after ``within_s`` without one.

        It ends with the reader's session. Raises ``TooManyStreams``.
        """
        count = self._streams.get(reader.owner, 0)
        if count >= STREAMS_OF_AN_OWNER or sum(self._streams.values()) >= STREAMS:
            raise TooManyStreams
        self._streams[reader.owner] = count + 1
        shared = self._shared.setdefault(key, _Shared(build, render))
        shared.readers.add(reader)
        if shared.task is None:
            shared.task = asyncio.create_task(self._keep(key, shared), name="page fragment")
        try:
            while not self._is_closed and not reader.is_ended:
                reader.news.clear()
                if shared.fragment is not None and shared.fragment.id != known:
                    known = shared.fragment.id
                    yield shared.fragment
                    continue
                try:
                    async with asyncio.timeout(within_s):
                        await reader.news.wait()
                except TimeoutError:
                    yield None
        finally:
            shared.readers.discard(reader)
            self._streams[reader.owner] -= 1
            if not self._streams[reader.owner]:
                del self._streams[reader.owner]

    async def _keep(self, key: tuple[str, ...], shared: _Shared) -> None:
        """Look again and again, for as long as anybody reads."""
        try:
            while shared.readers:
                await self._look(shared)
                await asyncio.sleep(self._look_every_s)
        finally:
            del self._shared[key]
            for reader in shared.readers:  # none, unless this was cut off
                reader.is_ended = True
                reader.news.set()

    async def _look(self, shared: _Shared) -> None:
        reader = next(iter(shared.readers))
        try:
            source = await reader.ask()
            mark = source.newest_at
            if mark != shared.mark or shared.page is None or shared.silence is not None:
                shared.page = await shared.build(source)
                shared.mark, shared.silence = mark, None
        except DaemonSilent as problem:
            shared.silence = shared.silence or Silence(self._wall_clock(), str(problem))
        except (SessionEnded, UserError) as problem:
            # Of that session alone, or of a job that is gone: its browser reloads the page, which shows that.
            log.info("page.stream_ended", reason=str(problem))
            reader.is_ended = True
            reader.news.set()
            shared.readers.discard(reader)
            return
        except Exception:
            log.exception("page.fragment_failed")
            return
        shared.put()
