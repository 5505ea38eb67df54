"""Who asks, by token or by the socket, and whether they may: before any route is entered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from autopilot.api import requests
from autopilot.api.access import (
    RULES,
    ApiCaller,
    Unauthorised,
    check_scope,
    find_own,
    recognise,
    token_needed,
    token_unknown,
)
from autopilot.api.bearer import hash_of_bearer
from autopilot.api.of_listener import FROM_LISTENER, PEER, PROXY_SECRET, PROXY_USER
from autopilot.api.page_sessions import PageSessions
from autopilot.api.proxied_users import ProxiedUsers, proxy_unknown
from autopilot.books.finding import no_such_job
from autopilot.domain.delegation import Settled
from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)

CHECK_EVERY_S = 15.0
Recognise = Callable[[], Awaitable[ApiCaller]]

_CALLER = web.RequestKey("caller", ApiCaller)
_JOB = web.RequestKey("job", str)
_AGAIN: web.RequestKey[Recognise] = web.RequestKey("again")
_JOB_ROUTES = "/v1/jobs/{ref}"
OF_LINKS = "/v1/page/enter"
"""All that the link to the page is good for."""


def caller_of(request: web.Request) -> ApiCaller:
    return request[_CALLER]


def job_ref(request: web.Request) -> str:
    """What the address names, by anything that a user may type; or the id alone of a job that a token may reach."""
    return request[_JOB]


class StillAllowed:
    """For an answer that goes on and on: whether the caller's token is still in force."""

    def __init__(self, request: web.Request) -> None:
        self._recognise = request[_AGAIN]
        self._loop = asyncio.get_running_loop()
        self._checked_at = self._loop.time()

    async def check(self) -> None:
        """To be called often; it looks now and then. Raises ``Unauthorised``."""
        if self._loop.time() - self._checked_at >= CHECK_EVERY_S:
            await self._recognise()
            self._checked_at = self._loop.time()


def check_access(
    store: Store,
    clock: Clock,
    sessions: PageSessions,
    settled: Settled,
    proxied: ProxiedUsers,
    *,
    is_listeners: bool = False,
) -> Middleware:
    """A middleware that refuses callers without the right to what they request.

    ``settled``: whom the settings limit, of the socket's users among others.

    ``is_listeners``: of the socket on which the listener passes on what comes over TCP. No caller there is a user of
    this machine, so each call needs a token, or a proxy that names its user (``proxied``).
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            again: Recognise = partial(_recognise, request, store, clock, sessions, settled, proxied, is_listeners)
            request[_AGAIN] = again
            caller = request[_CALLER] = await again()
        except Unauthorised:
            log.warning("api.login_failed", method=request.method, **origin_of(request))
            raise
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)  # no such address, or no such method there
        method = "GET" if request.method == "HEAD" else request.method
        rule = RULES[f"{method} {resource.canonical}"]
        check_scope(caller, rule)
        if resource.canonical.startswith(_JOB_ROUTES):
            reference = request.match_info["ref"]
            if caller.token is not None:
                async with store.snapshot() as uow:
                    found = await find_own(uow, reference, caller, rule)
                if found is None:
                    raise no_such_job(reference)
                reference = found
            request[_JOB] = reference
        return await handler(request)

    return check


def is_from_elsewhere(request: web.Request) -> bool:
    """Whether the listener has passed it on."""
    return PEER in request.headers


def origin_of(request: web.Request) -> dict[str, str | int | None]:
    """Where a call comes from, for the log: ``peer``, an address elsewhere, or ``uid``, a user of this machine."""
    peer = request.headers.get(PEER)
    return {"uid": requests.peer_uid(request)} if peer is None else {"peer": peer[:100]}


async def _recognise(
    request: web.Request,
    store: Store,
    clock: Clock,
    sessions: PageSessions,
    settled: Settled,
    proxied: ProxiedUsers,
    is_listeners: bool,
) -> ApiCaller:
    """A token alone decides, regardless of who sends it; so do a session of the page and a proxy's user.

    Raises ``Unauthorised``, ``UserError``.
    """
    if not is_listeners and (sent := [name for name in FROM_LISTENER if name in request.headers]):
        raise UserError(f"the header {sent[0]} is reserved for the listener", hint="leave it out")
    if PROXY_USER in request.headers or PROXY_SECRET in request.headers:
        if "Authorization" in request.headers:
            raise proxy_unknown()
        return await proxied.recognise(request.headers)
    sha256 = hash_of_bearer(request.headers)
    if sha256 is not None and (session := sessions.find(sha256)) is not None:
        if session.is_link and request.path != OF_LINKS:
            raise token_unknown()
        if session.token_sha256:
            return replace(await recognise(store, session.token_sha256, clock.now(), settled), session=session)
        of = settled.user(session.owner)
        if session.is_limited and of is None:
            raise token_unknown()
        return ApiCaller(session.owner, of, session)
    if sha256 is not None:
        return await recognise(store, sha256, clock.now(), settled)
    uid = None if is_listeners else requests.peer_uid(request)
    if uid is None:
        raise token_needed()
    return ApiCaller(uid, settled.user(uid))
