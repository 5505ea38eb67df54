"""A blob store in a bucket: S3 (AWS, R2, B2, MinIO and their like), Google's, Azure's. Machines speak to it themselves.

The extra ``s3`` brings the library for all of them; URLs are signed here, without asking anybody.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from autopilot.blobs import sts
from autopilot.domain.errors import UserError, install_hint
from autopilot.ports.blobs import MAX_READ_BYTES, BlobUnavailable, Grant, check_key

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureStore, ClientConfig, GCSConfig, GCSStore, RetryConfig, S3Store

SCHEMES = ("s3", "gs", "az")

REQUEST_TIMEOUT_S = 30
RETRIES = 2
READING_TIMEOUT_S = 6 * 3600
"""For all of a part, however slow the line is."""
_BLOCK_BYTES = 256 << 10
_DELETED_AT_ONCE = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where it is, and the account's key to it, which never leaves this machine."""

    url: str
    """``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``."""
    key_id: str
    """Access key id (S3), name of the storage account (Azure), nothing (Google)."""
    secret: str
    """The key itself; Google's is the JSON of a service account."""
    endpoint: str | None = None
    """Address of the service; None: that of AWS, Google or Azure."""
    region: str = "us-east-1"
    role: str | None = None
    """ARN of the role whose temporary keys machines get; None: they get signed URLs alone."""
    token_service: str | None = None
    """Address of the service that gives them; None: that of AWS in the region."""


class BucketBlobStore:
    def __init__(self, bucket: Bucket) -> None:
        """Sends no request. Raises ``UserError`` for an address that names no bucket, or without the library."""
        self._store = _connect(bucket, REQUEST_TIMEOUT_S)
        self._patient = _connect(bucket, READING_TIMEOUT_S)
        self._bucket = bucket
        self._grants: dict[tuple[frozenset[str], frozenset[str]], tuple[float, Grant]] = {}
        # Azure asks for it and signs without it; the others do not know it.
        self.put_headers = {"x-ms-blob-type": "BlockBlob"} if bucket.url.startswith("az:") else {}

    async def put(self, key: str, data: bytes) -> None:
        if await _ask(self._store.put_async(check_key(key), data)) is None:
            raise BlobUnavailable("the bucket does not exist")

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        head = bytearray()
        found = await self._read(key, lambda block: head.extend(block[: most_bytes - len(head)]), most_bytes)
        return None if found is None else bytes(head)

    async def size(self, key: str) -> int | None:
        found = await _ask(self._store.head_async(check_key(key)))
        return None if found is None else found["size"]

    async def sha256(self, key: str) -> str | None:
        sha256 = hashlib.sha256()
        found = await self._read(key, sha256.update)
        return None if found is None else sha256.hexdigest()

    async def _read(self, key: str, take: Callable[[bytes], object], most_bytes: int | None = None) -> int | None:
        """Bytes of the object that were read: all, or ``most_bytes`` and the rest of a block; None when it is absent.

        However large it is and however slow the line: only a pause of it is trouble.
        """

        async def read() -> int:
            async with asyncio.timeout(REQUEST_TIMEOUT_S) as pause:
                answer = await self._patient.get_async(check_key(key))
                count = 0
                async for block in answer.stream(min_chunk_size=_BLOCK_BYTES):
                    await asyncio.to_thread(take, bytes(block))
                    count += len(block)
                    if most_bytes is not None and count >= most_bytes:
                        break
                    pause.reschedule(asyncio.get_running_loop().time() + REQUEST_TIMEOUT_S)
                return count

        return await _ask(read())

    async def sizes(self, prefix: str) -> dict[str, int]:
        path = check_key(prefix.rstrip("/"))

        async def list_sizes() -> dict[str, int]:
            return {meta["path"]: meta["size"] async for page in self._store.list(path) for meta in page}

        beneath, own = await _ask(list_sizes()) or {}, await self.size(path)
        return beneath if own is None else {path: own, **beneath}

    async def delete(self, keys: Collection[str]) -> None:
        doomed = [check_key(key) for key in keys]
        for at in range(0, len(doomed), _DELETED_AT_ONCE):
            await _ask(self._store.delete_async(doomed[at : at + _DELETED_AT_ONCE]))

    async def delete_prefix(self, prefix: str) -> None:
        await self.delete(await self.sizes(prefix))

    async def admit(self, prefixes: Mapping[str, int]) -> None:
        """A bucket asks for a signature alone: the URLs of a lease that is over end within the hour, or soon after its
        permit would have."""

    async def grant(self, write: Collection[str], read: Collection[str]) -> Grant | None:
        bucket = self._bucket
        if bucket.role is None:
            return None
        wish, now = (frozenset(write), frozenset(read)), time.monotonic()
        self._grants = {known: kept for known, kept in self._grants.items() if kept[0] > now}
        if wish not in self._grants:
            self._grants[wish] = now + sts.VALID_FOR.total_seconds() / 2, await self._assume_role(*wish)
        return replace(self._grants[wish][1], at=int(time.time()))

    async def _assume_role(self, write: Collection[str], read: Collection[str]) -> Grant:
        bucket, parts = self._bucket, urlsplit(self._bucket.url)
        role = sts.AssumedRole(
            arn=bucket.role or "",
            endpoint=bucket.token_service or f"https://sts.{bucket.region}.amazonaws.com",
            region=bucket.region,
            key_id=bucket.key_id,
            secret=bucket.secret,
        )
        beneath = parts.path.strip("/") + "/" if parts.path.strip("/") else ""
        writes, reads = ([f"{beneath}{check_key(each)}/*" for each in sorted(keys)] for keys in (write, read))
        session = re.sub(r"[^\w+=,.@-]", "-", "-".join(sorted(write)))[-64:]
        keys = await sts.assume(role, session, sts.policy(parts.netloc, writes, reads))
        base = self.sign_get("x", sts.VALID_FOR).partition("?")[0].removesuffix("/x")
        return Grant(base, bucket.region, *keys, at=0)

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        return self._sign("GET", key, valid_for)

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int) -> str:
        """No bucket can bound the size of what is put; readers do (``MAX_READ_BYTES``, sizes in manifests)."""
        return self._sign("PUT", key, valid_for)

    def _sign(self, method: str, key: str, valid_for: timedelta) -> str:
        import obstore

        url: str = obstore.sign(self._store, "GET" if method == "GET" else "PUT", check_key(key), valid_for)
        return url


def _connect(bucket: Bucket, timeout_s: float) -> S3Store | GCSStore | AzureStore:
    parts = urlsplit(bucket.url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        hint = 'write it as "s3://bucket/prefix", with gs:// for Google and az:// for Azure'
        raise UserError(f"not the address of a bucket: {bucket.url!r}", hint=hint)
    prefix = parts.path.strip("/")
    if prefix:
        check_key(prefix)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise UserError("this kind of bucket needs an extra of autopilot", hint=install_hint("s3")) from None
    timeout = timedelta(seconds=REQUEST_TIMEOUT_S)
    whole = timedelta(seconds=timeout_s)
    client: ClientConfig = {"allow_http": True, "timeout": whole, "connect_timeout": timeout / 3}
    retry: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timeout}
    try:
        if parts.scheme == "gs":
            config: GCSConfig = {"service_account_key": bucket.secret}
            if bucket.endpoint:
                config["base_url"] = bucket.endpoint
            return GCSStore(
                parts.netloc, prefix=prefix or None, config=config, client_options=client, retry_config=retry
            )
        if parts.scheme == "az":
            account: AzureConfig = {"account_name": bucket.key_id, "account_key": bucket.secret}
            if bucket.endpoint:
                account["endpoint"] = bucket.endpoint
            return AzureStore(
                parts.netloc, prefix=prefix or None, config=account, client_options=client, retry_config=retry
            )
    except BaseError as error:
        raise UserError(f"the key of {bucket.url} is invalid: {str(error).partition(chr(10))[0]}") from None
    return S3Store(
        parts.netloc,
        prefix=prefix or None,
        endpoint=bucket.endpoint,
        region=bucket.region,
        access_key_id=bucket.key_id,
        secret_access_key=bucket.secret,
        virtual_hosted_style_request=bucket.endpoint is None,
        client_options=client,
        retry_config=retry,
    )


async def _ask(request: Awaitable[T]) -> T | None:
    """The answer, None for an object that is not there; raises ``BlobUnavailable`` for any trouble."""
    from obstore.exceptions import BaseError

    try:
        return await request
    except FileNotFoundError:
        return None
    except (BaseError, OSError) as error:
        raise BlobUnavailable(str(error).partition("\n")[0][:300]) from error
