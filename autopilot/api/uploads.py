"""Bodies that are too large for memory: they go to a file on a disk, and are hashed on their way, in a thread.

The listener has done so already with what comes over TCP. It names the file, its size and its hash in headers.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aiohttp import web

from autopilot.api.of_listener import FILE, SHA256, SIZE
from autopilot.domain.errors import UserError

_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Received:
    file: IO[bytes]
    """Open to be read from its beginning."""
    size: int
    sha256: str


Upload = Callable[[int], AbstractAsyncContextManager[Received]]
"""Takes the most bytes that may come; raises ``UserError`` for more."""


class Uploads:
    def __init__(self, scratch: Path, receiving: Path) -> None:
        """``scratch``: where bodies go that come here. ``receiving``: where the listener has put those that came there.

        Both are directories on a disk.
        """
        self._scratch = scratch
        self._receiving = receiving

    def of(self, request: web.Request) -> Upload:
        name = request.headers.get(FILE)
        if name is None:
            return lambda most: self._stream(request.content.iter_any(), most)
        claim = (request.headers.get(SIZE, ""), request.headers.get(SHA256, ""))
        return lambda most: self._take(name, claim, most)

    @asynccontextmanager
    async def _stream(self, body: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[Received]:
        with await asyncio.to_thread(self._open_scratch) as file:
            yield Received(file, *await receive(body, file, most_bytes))

    @asynccontextmanager
    async def _take(self, name: str, claim: tuple[str, str], most_bytes: int) -> AsyncIterator[Received]:
        size, sha256 = claim
        if not _NAME.fullmatch(name) or not size.isdecimal():
            raise UserError("the listener did not name an upload")
        if int(size) > most_bytes:
            raise too_much(most_bytes)
        with await asyncio.to_thread(self._open_received, name, int(size)) as file:
            yield Received(file, int(size), sha256)

    def _open_scratch(self) -> IO[bytes]:
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._scratch)

    def _open_received(self, name: str, size: int) -> IO[bytes]:
        """Raises ``UserError`` for anything but a file of that size."""
        try:
            file = os.fdopen(os.open(self._receiving / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
        except OSError as problem:
            raise UserError(f"the upload cannot be read: {problem.strerror}") from None
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            file.close()
            raise UserError("the size of the upload differs from the one that the listener reported")
        return file


async def receive(body: AsyncIterator[bytes], file: IO[bytes], most_bytes: int) -> tuple[int, str]:
    """(size, SHA-256) of what came, which ``file`` holds then, to be read. Raises ``UserError`` for more than that."""
    sha256, size, waiting = hashlib.sha256(), 0, bytearray()

    def keep(block: bytes) -> None:
        sha256.update(block)
        file.write(block)

    async for block in body:
        size += len(block)
        if size > most_bytes:
            raise too_much(most_bytes)
        waiting += block
        if len(waiting) >= _BLOCK_BYTES:
            await asyncio.to_thread(keep, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(keep, bytes(waiting))
    await asyncio.to_thread(file.seek, 0)
    return size, sha256.hexdigest()


def too_much(most_bytes: int) -> UserError:
    return UserError(f"more than {most_bytes:,} bytes came")
