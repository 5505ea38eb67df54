"""The calls of the page: a link to it, a session for its browser, and whose rights a session gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from autopilot import __version__
from autopilot.answers.codec import to_json
from autopilot.answers.pages import OpenedSession, PageCaller, PageLink
from autopilot.api.callers import caller_of, is_from_elsewhere
from autopilot.api.page_sessions import PageSessions
from autopilot.domain.errors import UserError
from autopilot.engine.engine import Engine
from autopilot.ports.clock import Clock

_NO_STORE = {"Cache-Control": "no-store"}


class PageRoutes:
    def __init__(
        self, sessions: PageSessions, engine: Engine, clock: Clock, find_address: Callable[[], Awaitable[str]]
    ) -> None:
        """``find_address``: where a browser on this machine finds the page, once its port is open; it may raise
        ``UserError``."""
        self._sessions = sessions
        self._engine = engine
        self._clock = clock
        self._find_address = find_address

    async def invite(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        if caller.session is not None:
            raise UserError("the page gives no further links", hint="autopilot web gives one")
        if caller.is_proxied:
            raise UserError("users of the proxy need no link", hint="open the address of the proxy")
        token = "" if caller.token is None else caller.token.sha256
        is_limited = caller.token is not None and caller.token.is_of_user
        path = f"/enter/{await self._sessions.invite(caller.owner, token, is_limited=is_limited)}"
        # A caller from the network has reached a port already.
        url = None if is_from_elsewhere(request) else await self._find_address() + path
        return web.json_response(to_json(PageLink(path=path, url=url)), status=201, headers=_NO_STORE)

    async def enter(self, request: web.Request) -> web.Response:
        link = caller_of(request).session
        if link is None or not link.is_link:
            raise UserError("this call needs a link", hint="autopilot web gives one")
        secret, session = await self._sessions.enter(link)
        opened = OpenedSession(secret=secret, expires_at=session.expires_at)
        return web.json_response(to_json(opened), status=201, headers=_NO_STORE)

    async def end(self, request: web.Request) -> web.Response:
        session = caller_of(request).session
        if session is not None:
            await self._sessions.end(session)
        return web.json_response({})

    async def whoami(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        told = PageCaller(
            owner=caller.owner,
            name="" if caller.token is None else caller.token.name,
            scope=caller.scope,
            sees_all=caller.sees_all,
            expires_at=None if caller.session is None else caller.session.expires_at,
            now=self._clock.now(),
            speed=self._clock.speed,
            last_tick_at=self._engine.last_tick_at,
            version=__version__,
        )
        return web.json_response(to_json(told))
