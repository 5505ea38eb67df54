"""The page's addresses. What answers them is loaded with the first request: most listeners never show a page."""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from autopilot.blobs.place import IDENTITY, MailboxPlace
from autopilot.listener.hosts import check_hosts
from autopilot.listener.known_tokens import KnownTokens

SERVED_BY = "autopilot.web.served:DaemonPages"
"""Named by text: the page is above this room, and takes its words from the commands."""
HOST = "127.0.0.1"
MAX_BODY_BYTES = 256 * 1024
OF_SESSION = "/s/{session}"
"""The prefix of every address of the pages of one session: see ``web.session_path``."""

ADDRESSES = {
    "GET /": "now",
    "GET /jobs/{ref}": "job",
    "GET /jobs/{ref}/log": "job_log",
    "GET /jobs/{ref}/do/{verb}": "confirm",
    "POST /jobs/{ref}/do/{verb}": "act",
    "GET /machines/{ref}": "machine",
    "GET /market": "market",
    "GET /money": "money",
    "GET /decisions": "decisions",
    "GET /hosts": "hosts",
    "GET /new": "new",
    "POST /new": "plan_or_submit",
    "GET /stream/now": "stream_now",
    "GET /stream/jobs/{ref}": "stream_job",
    "GET /enter/{key}": "enter",
    "POST /leave": "leave",
    "POST /zone": "choose_zone",
    "GET /static/{name}": "static",
}
"""Each with the name of what answers it."""
MISSING = "missing"
"""What answers every other address beneath the path of a session: elsewhere they may be the API's."""


class Pages(Protocol):
    async def answer(self, name: str, request: web.Request) -> web.StreamResponse:
        """``name``: one of ``ADDRESSES``, or ``MISSING``."""
        ...

    async def close(self) -> None: ...


MakePages = Callable[[MailboxPlace], Pages]


class LazyPages:
    def __init__(self, place: MailboxPlace) -> None:
        self._place = place
        self._loading: asyncio.Task[Pages] | None = None

    def routes(self) -> list[web.RouteDef]:
        """Routes of all pages, also under the path of a session."""
        made = [web.get(IDENTITY, self._identify)]
        for call, name in ADDRESSES.items():
            method, _, path = call.partition(" ")
            made += [web.route(method, base + path, self._handler(name)) for base in ("", OF_SESSION)]
        made.append(web.get(f"{OF_SESSION}/{{rest:.+}}", self._handler(MISSING)))
        return made

    async def close(self, _: web.Application) -> None:
        if self._loading is not None:
            await (await self._loading).close()

    async def _identify(self, request: web.Request) -> web.StreamResponse:
        """Tells the daemon that this port is its own listener's."""
        here = request.get_extra_info("sockname") or ("", 0)
        return web.Response(
            text=await asyncio.to_thread(self._place.name_page, request.match_info["question"], here[1])
        )

    def _handler(self, name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await (await self._load()).answer(name, request)

        return handle

    async def _load(self) -> Pages:
        if self._loading is None:
            self._loading = asyncio.create_task(self._make(), name="load the page")
        return await asyncio.shield(self._loading)

    async def _make(self) -> Pages:
        make: MakePages = await asyncio.to_thread(pkgutil.resolve_name, SERVED_BY)
        return make(self._place)


def page_listener(place: MailboxPlace) -> web.Application:
    """An application for a port of the page alone."""
    pages = LazyPages(place)
    app = web.Application(middlewares=[check_hosts((), HOST)], client_max_size=MAX_BODY_BYTES)
    app.add_routes(pages.routes())
    app.on_shutdown.append(pages.close)
    return app


def page_is_wanted(place: MailboxPlace) -> Callable[[], bool]:
    """Whether anybody has a link or a session."""
    return KnownTokens(place.page_sessions_path).has_any
