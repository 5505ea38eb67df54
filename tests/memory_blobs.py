"""A blob store in memory, equal to the local one in what it answers: for tests that are not about files."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from datetime import timedelta

from autopilot.blobs.local import URL_PREFIX
from autopilot.ports.blobs import MAX_READ_BYTES, check_key


class MemoryBlobs:
    """``BlobStore``. ``empty_bytes``: by key, the number of zeros of an object too large to hold here."""

    put_headers: Mapping[str, str] = {}

    def __init__(self, base_url: str = "http://127.0.0.1:1") -> None:
        self.base_url = base_url
        self.kept: dict[str, bytes] = {}
        self.empty_bytes: dict[str, int] = {}
        self.admitted: dict[str, int] = {}
        """Set by the last ``admit``; this store has no outside writers."""

    async def put(self, key: str, data: bytes) -> None:
        check_key(key)
        await asyncio.sleep(0)
        self.kept[key] = bytes(data)
        self.empty_bytes.pop(key, None)

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        check_key(key)
        await asyncio.sleep(0)
        if key in self.empty_bytes:
            return bytes(min(self.empty_bytes[key], most_bytes))
        found = self.kept.get(key)
        return None if found is None else found[:most_bytes]

    async def size(self, key: str) -> int | None:
        check_key(key)
        await asyncio.sleep(0)
        return self._all().get(key)

    async def sha256(self, key: str) -> str | None:
        found = await self.get(key)
        return None if found is None else hashlib.sha256(found).hexdigest()

    async def delete_prefix(self, prefix: str) -> None:
        await self.delete(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        whole = check_key(prefix.rstrip("/"))
        await asyncio.sleep(0)
        return {key: size for key, size in self._all().items() if key == whole or key.startswith(whole + "/")}

    async def delete(self, keys: Collection[str]) -> None:
        for key in keys:
            check_key(key)
        await asyncio.sleep(0)
        for key in keys:
            self.kept.pop(key, None)
            self.empty_bytes.pop(key, None)

    async def admit(self, prefixes: Mapping[str, int]) -> None:
        self.admitted = dict(prefixes)

    async def grant(self, write: Collection[str], read: Collection[str]) -> None:
        """It gives no keys."""

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        return f"{self.base_url}{URL_PREFIX}{check_key(key)}?get={valid_for.total_seconds():.0f}"

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int) -> str:
        return f"{self.base_url}{URL_PREFIX}{check_key(key)}?put={valid_for.total_seconds():.0f}&max_bytes={max_bytes}"

    def _all(self) -> dict[str, int]:
        return {**{key: len(data) for key, data in self.kept.items()}, **self.empty_bytes}
