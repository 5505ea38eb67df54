"""How many large bodies of a user of the socket are here at once, and how long a body may take that memory holds.

The listener bounds both at its own ports before the daemon hears of a call.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from autopilot.api.operations import OPERATIONS
from autopilot.api.problem_documents import problem
from autopilot.api.requests import BODY_WITHIN_S, is_large, peer_uid

LARGE_OF_A_USER = 4
"""At once, in memory or on their way to the disk; the next one waits for its turn, unread."""


def bound_bodies(within_s: float = BODY_WITHIN_S) -> Middleware:
    # A user's turns are kept for as long as a call holds or awaits one.
    turns_of: WeakValueDictionary[int | None, asyncio.Semaphore] = WeakValueDictionary()

    @web.middleware
    async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.can_read_body:
            return await handler(request)
        if not is_large(request):
            return await _answer(request, handler)
        user = peer_uid(request)
        turns = turns_of.get(user)
        if turns is None:
            turns_of[user] = turns = asyncio.Semaphore(LARGE_OF_A_USER)
        async with turns:
            return await _answer(request, handler)

    async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not _is_upload(request):
            try:
                async with asyncio.timeout(within_s):
                    await request.read()  # the request keeps it for its next reader
            except TimeoutError:
                return problem(408, "too_slow", f"the body did not come within {within_s:g} s")
        return await handler(request)

    return bound


def _is_upload(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    operation = OPERATIONS.get(f"{request.method} {resource.canonical}") if resource is not None else None
    return operation is not None and operation.is_upload
