"""Calls passed on to the daemon, over the socket that the two alone can open, and its answers as they come.

A body that is read whole is here before the daemon hears of it, however slowly it comes. What has to go to a disk is
there, with its hash, before the daemon hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from yarl import URL

from autopilot.api.of_listener import FILE, PEER, SHA256, SIZE
from autopilot.api.problem_documents import problem, problem_of_payload
from autopilot.api.requests import BODY_WITHIN_S, is_large
from autopilot.blobs.place import MailboxPlace
from autopilot.domain.errors import UserError
from autopilot.listener.gate import LOGIN
from autopilot.listener.receiving import Full, Receiving

DAEMON_CALLS = 256
"""At once."""
_ASKED = ("Accept", "Content-Type", "Idempotency-Key", "Last-Event-ID")
_ANSWERED = (
    *("Content-Type", "Content-Length", "Cache-Control", "Allow", "WWW-Authenticate", "Retry-After"),
    "Idempotency-Replayed",
)
"""Headers that are passed on, beside those of the login; no other is."""
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_WITHIN = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=900)
"""Longer than any call that the daemon answers late, like ``exec``."""


class Relay:
    def __init__(self, place: MailboxPlace, receiving: Receiving) -> None:
        self._place = place
        self._receiving = receiving
        self._daemon: aiohttp.ClientSession | None = None

    async def open(self, _: web.Application) -> AsyncIterator[None]:
        """What a call needs, for as long as the port is open."""
        await self._receiving.prepare()
        connector = aiohttp.UnixConnector(str(self._place.daemon_socket), limit=DAEMON_CALLS, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=_WITHIN, auto_decompress=False) as self._daemon:
            yield

    async def call(self, request: web.Request) -> web.StreamResponse:
        """For calls whose body is read whole: memory holds it, so few large ones are here at once, uploads included."""
        with self._receiving.count(request[LOGIN]) if is_large(request) else contextlib.nullcontext():
            return await self._call(request)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await request.read()
        except TimeoutError:
            return _too_slow()
        except web.RequestPayloadError:
            return problem_of_payload()
        return await self._ask(request, body, {})

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """For calls whose body goes to a disk."""
        try:
            async with self._receiving.take(request, request[LOGIN]) as (name, size, sha256):
                return await self._ask(request, b"", {FILE: name, SIZE: str(size), SHA256: sha256})
        except TimeoutError:
            return _too_slow()
        except web.RequestPayloadError:
            return problem_of_payload()
        except UserError as problem_of_size:
            return problem(413, "too_large", problem_of_size.message)
        except (Full, OSError):
            return problem(507, "disk_full", "the daemon's disk has no room for this", "free some space there")

    async def _ask(self, request: web.Request, body: bytes, more: dict[str, str]) -> web.StreamResponse:
        """The daemon's answer. A caller that hangs up cancels this, and so the call to the daemon."""
        assert self._daemon is not None, "it was opened"
        headers = {name: request.headers[name] for name in _ASKED if name in request.headers}
        headers |= {**more, **request[LOGIN].headers, PEER: request.remote or "proxy"}
        url = URL(f"http://daemon{request.rel_url.raw_path_qs}", encoded=True)
        answer = None
        try:
            async with self._daemon.request(request.method, url, data=body or None, headers=headers) as answered:
                kept = {name: answered.headers[name] for name in _ANSWERED if name in answered.headers}
                answer = web.StreamResponse(status=answered.status, headers=_ALWAYS | kept)
                await answer.prepare(request)
                async for chunk in answered.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
                return answer
        except (aiohttp.ClientError, TimeoutError, OSError):
            if answer is not None and answer.prepared:
                if request.transport is not None:
                    request.transport.close()  # an answer that was cut off looks like one
                return answer
        return problem(503, "daemon_unavailable", "the daemon does not answer", "it may be restarting: try again")


def _too_slow() -> web.Response:
    return problem(408, "too_slow", f"the body did not come within {BODY_WITHIN_S:g} s")
