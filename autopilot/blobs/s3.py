"""A blob store in a bucket that speaks S3: AWS, R2, B2, MinIO and their like. Machines speak to the bucket itself.

The extra ``s3`` brings the library; its URLs are signed here (SigV4), without asking anybody.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from autopilot.domain.errors import UserError
from autopilot.ports.blobs import MAX_READ_BYTES, BlobUnavailable, checked_key

if TYPE_CHECKING:
    from obstore.store import S3Store

REQUEST_TIMEOUT_S = 30
RETRIES = 2
_READ_BYTES = 4 << 20
_DELETED_AT_ONCE = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where it is, and the account's key to it, which never leaves this machine."""

    url: str
    access_key_id: str
    secret_access_key: str
    endpoint: str | None = None
    """Address of the service; None: AWS."""
    region: str = "us-east-1"


class S3BlobStore:
    def __init__(self, bucket: Bucket) -> None:
        """Asks nobody anything. Raises ``UserError`` for an address that names no bucket, or without the library."""
        self._store = _connect(bucket)

    async def put(self, key: str, data: bytes) -> None:
        if await _asked(self._store.put_async(checked_key(key), data)) is None:
            raise BlobUnavailable("the bucket does not exist")

    async def get(self, key: str) -> bytes | None:
        async def read() -> bytes:
            answer = await self._store.get_async(checked_key(key))
            if answer.meta["size"] <= MAX_READ_BYTES:
                return bytes(await answer.bytes_async())
            head = bytearray()
            async for block in answer.stream(min_chunk_size=_READ_BYTES):
                head += block
                if len(head) >= MAX_READ_BYTES:
                    break
            return bytes(head[:MAX_READ_BYTES])

        return await _asked(read())

    async def size(self, key: str) -> int | None:
        found = await _asked(self._store.head_async(checked_key(key)))
        return None if found is None else found["size"]

    async def sha256(self, key: str) -> str | None:
        async def digest() -> str:
            answer = await self._store.get_async(checked_key(key))
            sha256 = hashlib.sha256()
            async for block in answer.stream(min_chunk_size=_READ_BYTES):
                await asyncio.to_thread(sha256.update, block)
            return sha256.hexdigest()

        return await _asked(digest())

    async def keys(self, prefix: str) -> tuple[str, ...]:
        path = checked_key(prefix.rstrip("/"))

        async def listed() -> tuple[str, ...]:
            return tuple([meta["path"] async for page in self._store.list(path) for meta in page])

        beneath = await _asked(listed()) or ()
        return beneath if await self.size(path) is None else (path, *beneath)

    async def delete(self, keys: Collection[str]) -> None:
        doomed = [checked_key(key) for key in keys]
        for at in range(0, len(doomed), _DELETED_AT_ONCE):
            await _asked(self._store.delete_async(doomed[at : at + _DELETED_AT_ONCE]))

    async def delete_prefix(self, prefix: str) -> None:
        await self.delete(await self.keys(prefix))

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        return self._signed("GET", key, valid_for)

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int) -> str:
        """S3 cannot bound the size of what is put; readers do (``MAX_READ_BYTES``, sizes in manifests)."""
        return self._signed("PUT", key, valid_for)

    def _signed(self, method: str, key: str, valid_for: timedelta) -> str:
        import obstore

        url: str = obstore.sign(self._store, "GET" if method == "GET" else "PUT", checked_key(key), valid_for)
        return url


def _connect(bucket: Bucket) -> S3Store:
    parts = urlsplit(bucket.url)
    if parts.scheme != "s3" or not parts.netloc:
        raise UserError(f"not the address of a bucket: {bucket.url!r}", hint='write it as "s3://bucket/prefix"')
    prefix = parts.path.strip("/")
    if prefix:
        checked_key(prefix)
    try:
        from obstore.store import S3Store
    except ImportError:
        raise UserError("buckets need an extra of autopilot", hint='pip install "gpu-autopilot[s3]"') from None
    timeout = timedelta(seconds=REQUEST_TIMEOUT_S)
    return S3Store(
        parts.netloc,
        prefix=prefix or None,
        endpoint=bucket.endpoint,
        region=bucket.region,
        access_key_id=bucket.access_key_id,
        secret_access_key=bucket.secret_access_key,
        virtual_hosted_style_request=bucket.endpoint is None,
        client_options={"allow_http": True, "timeout": timeout, "connect_timeout": timeout / 3},
        retry_config={"max_retries": RETRIES, "retry_timeout": timeout},
    )


async def _asked(request: Awaitable[T]) -> T | None:
    """The answer, None for an object that is not there; raises ``BlobUnavailable`` for any trouble."""
    from obstore.exceptions import BaseError

    try:
        return await request
    except FileNotFoundError:
        return None
    except (BaseError, OSError) as error:
        raise BlobUnavailable(str(error).partition("\n")[0][:300]) from error
