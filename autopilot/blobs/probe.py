"""Trying out a store as daemon and machines will use it: write, read, list, sign, delete; and whose clock is right."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime

import aiohttp

from autopilot.ports.blobs import BlobStore, BlobUnavailable

MAX_SKEW_S = 60.0
"""Signed URLs are judged by the store's clock; it forgives a quarter of an hour, and clocks that drift drift on."""
LARGE_BYTES = 6 << 20
"""More than a store takes in one piece from the library: it goes up in several parts."""
_VALID_FOR = timedelta(minutes=5)
_TIMEOUT = aiohttp.ClientTimeout(total=60)


class ProbeFailed(Exception):
    """What could not be done, and what the store said."""


class NoPresigned(ProbeFailed):
    """It refuses addresses that are signed, and machines have nothing else."""


async def probe(store: BlobStore) -> str:
    """Leaves nothing behind. Answers a line about what works; raises ``ProbeFailed``."""
    prefix = f"probe/{secrets.token_hex(8)}"
    key, large = f"{prefix}/small", f"{prefix}/large"
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as http:
            skew_s = await _try_calls(store, http, key, large)
    except ProbeFailed:
        with suppress(BlobUnavailable):
            await store.delete((key, large))
        raise
    async with _doing("delete"):
        await store.delete((key, large))
        _expect(await store.sizes(prefix), {}, "it is still there")
    if abs(skew_s) > MAX_SKEW_S:
        raise ProbeFailed(f"its clock and this machine's are {abs(skew_s):.0f} s apart")
    return f"write, read, list, parts, signed URLs and delete work; clocks {abs(skew_s):.0f} s apart"


async def probe_address(store: BlobStore) -> str:
    """Whether signed addresses of a store that a listener of ours serves lead there, as seen from this machine.

    Leaves nothing behind. Answers a line about what works; raises ``ProbeFailed``.
    """
    key = f"probe/{secrets.token_hex(8)}"
    async with _doing("write to the mailbox"):
        await store.put(key, b"written")
    try:
        async with (
            _doing("read from the mailbox through that address"),
            aiohttp.ClientSession(timeout=_TIMEOUT) as http,
            http.get(store.sign_get(key, _VALID_FOR)) as answer,
        ):
            _expect((answer.status, await answer.content.read(100)), (200, b"written"), f"it answered {answer.status}")
    finally:
        with suppress(BlobUnavailable):
            await store.delete((key,))
    return "it leads to this machine's mailbox; tried from here, not from outside"


async def _try_calls(store: BlobStore, http: aiohttp.ClientSession, key: str, large: str) -> float:
    """By how many seconds its clock is ahead of ours."""
    async with _doing("write"):
        await store.put(key, b"written")
    async with _doing("read"):
        _expect(await store.get(key), b"written")
    async with _doing("write in several parts"):
        await store.put(large, bytes(LARGE_BYTES))
        _expect(await store.size(large), LARGE_BYTES)
    async with _doing("list"):
        _expect(set(await store.sizes(key.rpartition("/")[0])), {key, large})
    skew_s = await _try_presigned(store, http, key)
    async with _doing("get temporary keys for machines"):
        await store.grant([key.rpartition("/")[0]], [])
    bare = store.sign_get(key, _VALID_FOR).partition("?")[0]
    async with _doing("keep others out"), http.get(bare) as answer:
        _expect(answer.status >= 400, True, "anybody can read it: make the bucket private")
    return skew_s


async def _try_presigned(store: BlobStore, http: aiohttp.ClientSession, key: str) -> float:
    """As machines will: with an address that is signed, and by way of where a GET may lead from there."""
    async with _doing("write by a signed URL"):
        async with http.put(store.sign_put(key, _VALID_FOR, 100), data=b"signed", headers=store.put_headers) as answer:
            _check_honoured("PUT", answer)
            _expect(answer.status < 300, True, f"it answered {answer.status}")
        _expect(await store.get(key), b"signed")
    async with _doing("read by a signed URL"), http.get(store.sign_get(key, _VALID_FOR)) as answer:
        _check_honoured("GET", answer)
        _expect(await answer.read(), b"signed", f"it answered {answer.status}")
        # Signatures are judged by the clock of the store, not by that of the host that it leads to.
        first = answer.history[0] if answer.history else answer
        return _skew_s(first.headers.get("Date"))


def _check_honoured(method: str, answer: aiohttp.ClientResponse) -> None:
    """The account's key has done the same just before."""
    if answer.status in (400, 401, 403):
        raise NoPresigned(
            f"it refuses presigned addresses, by which machines read and write: {method} was answered {answer.status}"
        )


@asynccontextmanager
async def _doing(what: str) -> AsyncIterator[None]:
    try:
        yield
    except (BlobUnavailable, aiohttp.ClientError, TimeoutError) as problem:
        raise ProbeFailed(f"cannot {what}: {problem or type(problem).__name__}") from problem
    except _Unexpected as problem:
        raise ProbeFailed(f"cannot {what}: {problem}") from None


class _Unexpected(Exception):
    pass


def _expect(actual: object, wanted: object, otherwise: str = "what came back is not what was written") -> None:
    if actual != wanted:
        raise _Unexpected(otherwise)


def _skew_s(date: str | None) -> float:
    """By how many seconds the store is ahead; 0 when it does not say."""
    return 0.0 if date is None else parsedate_to_datetime(date).timestamp() - time.time()
