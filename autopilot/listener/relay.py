"""Calls passed on to the daemon, over the socket that the two alone can open, and its answers as they come.

A body that is read whole is here before the daemon hears of it, however slowly it comes. What has to go to a disk is
there, with its hash, before the daemon hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from autopilot.api.bearer import hash_of_bearer
from autopilot.api.problem_documents import problem, problem_of_payload
from autopilot.api.uploads import FILE, PEER, SHA256, SIZE, receive
from autopilot.blobs.listener import KEPT_FREE_BYTES
from autopilot.blobs.place import MailboxPlace, share
from autopilot.domain.errors import UserError
from autopilot.ids import new_name
from autopilot.listener.token_gate import TooMany

BODY_WITHIN_S = 60.0
"""For a whole body of the small kind, and for a pause in one of the large."""
DAEMON_CALLS = 256
"""At once."""
MOST_UPLOAD_BYTES = 16 << 20
"""Of a part of code, and of its index."""
UPLOADS_OF_A_TOKEN = 4
UPLOADS_AT_ONCE = 16
_CHUNK_BYTES = 64 << 10
_ASKED = ("Accept", "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID")
_ANSWERED = (
    *("Content-Type", "Content-Length", "Cache-Control", "Allow", "WWW-Authenticate", "Retry-After"),
    "Idempotency-Replayed",
)
"""Headers that are passed on; no other is."""
_ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_WITHIN = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=900)
"""Longer than any call that the daemon answers late, like ``exec``."""


class Full(Exception):
    """To be answered with 507."""


class Relay:
    def __init__(self, place: MailboxPlace) -> None:
        self._place = place
        self._daemon: aiohttp.ClientSession | None = None
        self._uploads: Counter[str] = Counter()

    async def open(self, _: web.Application) -> AsyncIterator[None]:
        """What a call needs, for as long as the port is open."""
        await asyncio.to_thread(_make_empty, self._place.receiving, self._place.root)
        connector = aiohttp.UnixConnector(str(self._place.daemon_socket), limit=DAEMON_CALLS, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=_WITHIN, auto_decompress=False) as self._daemon:
            yield

    async def call(self, request: web.Request) -> web.StreamResponse:
        """For calls whose body is small."""
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
        path = self._place.receiving / new_name()
        try:
            with self._count(hash_of_bearer(request.headers) or ""):
                size, sha256 = await self._receive(request, path)
                return await self._ask(request, b"", {FILE: path.name, SIZE: str(size), SHA256: sha256})
        except TimeoutError:
            return _too_slow()
        except web.RequestPayloadError:
            return problem_of_payload()
        except UserError as problem_of_size:
            return problem(413, "too_large", problem_of_size.message)
        except (Full, OSError):
            return problem(507, "disk_full", "the daemon's disk has no room for this", "free some space there")
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    @contextlib.contextmanager
    def _count(self, sha256: str) -> Iterator[None]:
        if self._uploads[sha256] >= UPLOADS_OF_A_TOKEN:
            raise TooMany(f"{UPLOADS_OF_A_TOKEN} uploads of this token")
        if self._uploads.total() >= UPLOADS_AT_ONCE:
            raise TooMany(f"{UPLOADS_AT_ONCE} uploads")
        self._uploads[sha256] += 1
        try:
            yield
        finally:
            self._uploads[sha256] -= 1

    async def _receive(self, request: web.Request, path: Path) -> tuple[int, str]:
        if request.content_length is not None:
            self._check_room(request.content_length)
        with await asyncio.to_thread(path.open, "x+b") as file:
            received = await receive(self._chunks(request), file, MOST_UPLOAD_BYTES)
            await asyncio.to_thread(file.flush)
            share(path, self._place.root, 0o660)
        return received

    async def _chunks(self, request: web.Request) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(BODY_WITHIN_S):
                chunk = await request.content.read(_CHUNK_BYTES)
            if not chunk:
                return
            self._check_room(len(chunk))
            yield chunk

    def _check_room(self, size: int) -> None:
        if shutil.disk_usage(self._place.root).free - size < KEPT_FREE_BYTES:
            raise Full

    async def _ask(self, request: web.Request, body: bytes, more: dict[str, str]) -> web.StreamResponse:
        """The daemon's answer. Whoever hangs up cancels this, and so hangs up on the daemon."""
        assert self._daemon is not None, "it was opened"
        headers = {name: request.headers[name] for name in _ASKED if name in request.headers}
        headers |= more | {PEER: request.remote or ""}
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


def _make_empty(directory: Path, root: Path) -> None:
    """What is there was left by a listener that was killed."""
    if not directory.exists():
        directory.mkdir(mode=0o700)
        share(directory, root, 0o770)
    for each in directory.iterdir():
        each.unlink(missing_ok=True)
