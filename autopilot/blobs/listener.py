"""The HTTP listener of a local blob store: what a rented machine speaks to, apart from the control API.

It answers GET and PUT under ``/blobs/<key>`` with a signature made by ``LocalBlobStore`` and nothing else:
400 a body that is not what its headers say · 403 not signed for this, or expired, or its lease is over ·
404 no such object · 413 larger than was signed for · 416 no such range · 429 too many requests of one lease at once ·
507 disk (nearly) full.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

from aiohttp import web

from autopilot.blobs.admission import lease_of
from autopilot.blobs.local import OLD_SCRATCH_S, URL_PREFIX, IncomingBlob, LocalBlobStore
from autopilot.blobs.shares import ShareIsUsedUp, Shares, Upload, free_bytes
from autopilot.ports.blobs import check_key

KEPT_FREE_BYTES = 64 << 20
"""Room on the disk that uploads never take: the ledger lies beside them and must always be able to record."""

REQUESTS_OF_A_LEASE = 32
"""At once; an agent moves four parts at a time."""

_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 256 << 10
_HEADERS = {
    "Content-Type": "application/octet-stream",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Accept-Ranges": "bytes",
}
_IDLE_TIMEOUT_S = 60
_FULL = {errno.ENOSPC, errno.EDQUOT}


def blob_listener(store: LocalBlobStore, *, prefix: str = URL_PREFIX, is_for_reading: bool = False) -> web.Application:
    """An application to run on an address of its own, one for each store; it holds no state besides the store.

    ``prefix``: before the key, in addresses. ``is_for_reading``: it takes nothing in.
    """
    listener = _Listener(store)
    app = web.Application()
    app.router.add_get(prefix + "{key:.+}", listener.get, allow_head=False)
    if not is_for_reading:
        app.cleanup_ctx.append(listener.tidy)
        app.router.add_put(prefix + "{key:.+}", listener.put)
    return app


class _Listener:
    """What one store's addresses answer."""

    def __init__(self, store: LocalBlobStore) -> None:
        self._store = store
        self._shares = Shares(store.root)
        self._at_once: Counter[str] = Counter()

    async def get(self, request: web.Request) -> web.StreamResponse:
        key, _ = _authorise(self._store, request)
        with self._count(key):
            return await self._read(request, key)

    async def put(self, request: web.Request) -> web.Response:
        key, max_bytes = _authorise(self._store, request)
        with self._count(key), _tell_failures():
            await self._write(request, key, max_bytes)
        return web.Response(status=201)

    async def tidy(self, _: web.Application) -> AsyncIterator[None]:
        tidying = asyncio.create_task(_tidy(self._store))
        yield
        tidying.cancel()

    @contextlib.contextmanager
    def _count(self, key: str) -> Iterator[None]:
        """A host with many signed URLs, each used slowly, leaves connections to the others."""
        lease, at_once = lease_of(key), self._at_once
        if lease is None:
            yield
            return
        if at_once[lease] >= REQUESTS_OF_A_LEASE:
            raise web.HTTPTooManyRequests(headers={"Retry-After": "5"})
        at_once[lease] += 1
        try:
            yield
        finally:
            at_once[lease] -= 1
            if not at_once[lease]:
                del at_once[lease]

    async def _read(self, request: web.Request, key: str) -> web.StreamResponse:
        path = self._store.path(key)
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise web.HTTPNotFound from None
        with file:
            return await _send(request, file)

    async def _write(self, request: web.Request, key: str, max_bytes: int) -> None:
        store = self._store
        most = await _check_admitted(store, key)
        if request.content_length is not None and request.content_length > max_bytes:
            raise _too_large(max_bytes, request.content_length)
        _check_room(store, request.content_length or 0)
        with self._shares.upload(key, most, free_bytes(store.root)) as coming:
            incoming = await asyncio.to_thread(store.incoming, key)
            try:
                await _receive(request, incoming, max_bytes, coming, store)
                await _check_admitted(store, key)
                await asyncio.to_thread(incoming.publish)
            finally:
                incoming.discard()


@contextlib.contextmanager
def _tell_failures() -> Iterator[None]:
    """As the status that says who is at fault."""
    try:
        yield
    except ShareIsUsedUp:
        raise web.HTTPInsufficientStorage(text="the lease or its job has its share of the store") from None
    except OSError as error:
        if error.errno in _FULL:
            raise web.HTTPInsufficientStorage from error
        raise web.HTTPServiceUnavailable from error
    except web.RequestPayloadError:
        raise web.HTTPBadRequest(text="the body is not what its headers say") from None


def _authorise(store: LocalBlobStore, request: web.Request) -> tuple[str, int]:
    """The key and the size limit that the request is signed for; raises 403 otherwise."""
    query = request.query
    try:
        key = check_key(request.match_info["key"])
        expires, max_bytes = int(query["expires"]), int(query["max_bytes"])
        allowed = store.allows(request.method, key, expires, max_bytes, query["signature"])
    except (KeyError, ValueError):
        allowed = False
    if not allowed:
        raise web.HTTPForbidden
    return key, max_bytes


async def _send(request: web.Request, file: BinaryIO) -> web.StreamResponse:
    """The object, or the range of it that is asked for, a piece at a time."""
    size = os.fstat(file.fileno()).st_size
    try:
        start, end, _ = request.http_range.indices(size)
    except ValueError:
        start, end = size, size
    if start >= end and "Range" in request.headers:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    response = web.StreamResponse(headers=_HEADERS)
    if "Range" in request.headers:
        response.set_status(206)
        response.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response.content_length = end - start
    await response.prepare(request)
    file.seek(start)
    while start < end:
        piece = await asyncio.to_thread(file.read, min(_PIECE_BYTES, end - start))
        if not piece:
            raise ConnectionResetError("the object became shorter")
        await response.write(piece)
        start += len(piece)
    await response.write_eof()
    return response


async def _tidy(store: LocalBlobStore) -> None:
    while True:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(store.remove_old_scratch)
        await asyncio.sleep(OLD_SCRATCH_S)


async def _check_admitted(store: LocalBlobStore, key: str) -> float:
    """How much may lie beneath its lease; raises 403 once that is over."""
    most = await asyncio.to_thread(store.most_bytes, key)
    if not most:
        raise web.HTTPForbidden
    return most


def _check_room(store: LocalBlobStore, size: int) -> None:
    if shutil.disk_usage(store.root.parent).free - size < KEPT_FREE_BYTES:
        raise web.HTTPInsufficientStorage


async def _receive(
    request: web.Request, incoming: IncomingBlob, max_bytes: int, coming: Upload, store: LocalBlobStore
) -> None:
    received = 0
    while True:
        async with asyncio.timeout(_IDLE_TIMEOUT_S):
            chunk = await request.content.read(_CHUNK_BYTES)
        if not chunk:
            break
        received += len(chunk)
        if received > max_bytes:
            raise _too_large(max_bytes, received)
        coming.take(len(chunk))
        _check_room(store, len(chunk))  # others send at the same time, and not all say how much
        await asyncio.to_thread(incoming.write, chunk)


def _too_large(max_bytes: int, size: int) -> web.HTTPRequestEntityTooLarge:
    return web.HTTPRequestEntityTooLarge(max_size=max_bytes, actual_size=size)
