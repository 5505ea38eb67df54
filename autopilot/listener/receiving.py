"""Where uploads go until the daemon has them, a directory on the disk; and how many large bodies may come at once."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiohttp import web

from autopilot.api.uploads import receive
from autopilot.blobs.listener import KEPT_FREE_BYTES
from autopilot.blobs.place import MailboxPlace, share
from autopilot.ids import new_name
from autopilot.listener.gate import KnownLogin, TooMany

MOST_UPLOAD_BYTES = 16 << 20
"""Limit for a part of code, and for its index."""
UPLOADS_OF_A_LOGIN = 4
UPLOADS_AT_ONCE = 16
PAUSE_WITHIN_S = 60.0
_CHUNK_BYTES = 64 << 10


class Full(Exception):
    """To be answered with 507."""


class Receiving:
    """One for all ports of a listener."""

    def __init__(self, place: MailboxPlace) -> None:
        self._place = place
        self._under_way: Counter[str] = Counter()
        self._is_prepared = False

    async def prepare(self) -> None:
        """Before the first upload. Raises ``OSError``."""
        if not self._is_prepared:
            await asyncio.to_thread(_make_empty, self._place.receiving, self._place.root)
            self._is_prepared = True

    @contextlib.asynccontextmanager
    async def take(self, request: web.Request, login: KnownLogin) -> AsyncIterator[tuple[str, int, str]]:
        """(name of the file, its size, its SHA-256) of the whole body; the file is there for that long.

        Raises ``TooMany``, ``Full``, ``OSError``, ``TimeoutError`` for a pause, ``UserError`` for too much.
        """
        path = self._place.receiving / new_name()
        try:
            with self.count(login):
                yield path.name, *await self._receive(request, path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    @contextlib.contextmanager
    def count(self, login: KnownLogin) -> Iterator[None]:
        """For as long as a large body of the login is here, on the disk or in memory. Raises ``TooMany``."""
        if self._under_way[login.key] >= UPLOADS_OF_A_LOGIN:
            raise TooMany(f"{UPLOADS_OF_A_LOGIN} uploads of this {login.kind}")
        if self._under_way.total() >= UPLOADS_AT_ONCE:
            raise TooMany(f"{UPLOADS_AT_ONCE} uploads")
        self._under_way[login.key] += 1
        try:
            yield
        finally:
            self._under_way[login.key] -= 1
            if not self._under_way[login.key]:
                del self._under_way[login.key]

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
            async with asyncio.timeout(PAUSE_WITHIN_S):
                chunk = await request.content.read(_CHUNK_BYTES)
            if not chunk:
                return
            self._check_room(len(chunk))
            yield chunk

    def _check_room(self, size: int) -> None:
        if shutil.disk_usage(self._place.root).free - size < KEPT_FREE_BYTES:
            raise Full


def _make_empty(directory: Path, root: Path) -> None:
    """What is there was left by a listener that was killed."""
    if not directory.exists():
        directory.mkdir(mode=0o700)
        share(directory, root, 0o770)
    for each in directory.iterdir():
        each.unlink(missing_ok=True)
