"""The simulated object store: small objects as they are, checkpoint parts by size and content's name alone."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from autopilot.domain.job import Checkpoint
from autopilot.mailbox.keys import verified_key
from autopilot.mailbox.reading import parse_manifest
from autopilot.mailbox.report_shapes import Manifest
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot.ports.blobs import MAX_READ_BYTES, BlobUnavailable, check_key
from autopilot.ports.unpacking import CodeContents, Unrestorable
from tests.simulation.ground.ground import Ground
from tests.simulation.virtual.loop import VirtualLoop

STORE = "store"
"""What bursts call it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """``data`` None: a part of a checkpoint, known by its size and SHA-256."""

    data: bytes | None
    size: int
    sha256: str


def stored(data: bytes) -> Stored:
    return Stored(data, len(data), hashlib.sha256(data).hexdigest())


def a_part(name: str, size: int) -> Stored:
    return Stored(None, size, hashlib.sha256(name.encode()).hexdigest())


INDEX = b"an index of step "
"""How one begins that another machine can restore by."""


class SimulatedUnpacker:
    """Tells an index from what is none, as a restore on any of the simulated machines does (``Unpacker``)."""

    async def check_checkpoint(self, manifest: bytes, lease_id: str, index: bytes) -> None:
        await self.check_index(index, ())

    async def check_index(self, index: bytes, sizes: Sequence[int]) -> None:
        if not index.startswith(INDEX):
            raise Unrestorable("it is no index")

    async def read_code(self, index: bytes) -> CodeContents:
        raise Unrestorable("no job here has code")

    async def content_of(self, data: bytes, most_bytes: int) -> tuple[int, str]:
        raise Unrestorable("no machine here compresses")


class ObjectRefused(Exception):
    """A URL that is no longer valid, or an object that is not there."""


class NoRoom(ObjectRefused):
    """The lease may not write, or has its share of the store."""


class Objects:
    """The truth: what is stored."""

    def __init__(self, loop: VirtualLoop, *, keeps_gate: bool) -> None:
        """``keeps_gate``: as the daemon's own store, which lets those leases alone write that the daemon has named."""
        self._loop = loop
        self.keeps_gate = keeps_gate
        self._admitted: Mapping[str, int] | None = None
        self.kept: dict[str, Stored] = {}

    def admit(self, prefixes: Mapping[str, int]) -> None:
        """Only beneath these, and so many bytes, may machines put from now on."""
        self._admitted = dict(prefixes)

    def size_of(self, prefix: str) -> int:
        return sum(kept.size for key, kept in self.kept.items() if key.startswith(prefix + "/"))

    def rot(self, url: str) -> None:
        """What that URL gets is another part from now on, of the same size."""
        key = self._checked(url, "get")
        if key in self.kept:
            self.put(key, a_part("rotten", self.kept[key].size))

    def put(self, key: str, what: Stored) -> None:
        self.kept[key] = what

    def keys_of(self, checkpoint: Checkpoint) -> frozenset[str]:
        """What a verified checkpoint needs: the daemon's copy of its manifest, and its parts."""
        manifest = self._manifest(checkpoint)
        key = verified_key(checkpoint.job_id, checkpoint.lease_id, checkpoint.number)
        parts = () if manifest is None else manifest.part_keys(checkpoint.job_id, checkpoint.lease_id)
        return frozenset((key, *parts))

    def fault_of(self, checkpoint: Checkpoint) -> str:
        """Why it cannot be restored; empty when it can."""
        manifest = self._manifest(checkpoint)
        if manifest is None:
            return "its manifest is missing"
        keys = manifest.part_keys(checkpoint.job_id, checkpoint.lease_id)
        for key, part in zip(keys, manifest.parts, strict=True):
            kept = self.kept.get(key)
            if kept is None or (kept.size, kept.sha256) != (part.size, part.sha256):
                return f"{key} is missing or harmed"
        if not (self.kept[keys[0]].data or b"").startswith(INDEX):
            return "its index cannot be read"
        return ""

    def _manifest(self, checkpoint: Checkpoint) -> Manifest | None:
        kept = self.kept.get(verified_key(checkpoint.job_id, checkpoint.lease_id, checkpoint.number))
        return None if kept is None else parse_manifest(kept.data or b"")

    # --- by URL, as agents do it: the URL is the key and the moment from which it is refused

    def put_by(self, url: str, what: Stored) -> None:
        """Raises ``ObjectRefused``."""
        key = self._checked(url, "put")
        if self._admitted is not None:
            prefix = "/".join(key.split("/")[:3])
            most = self._admitted.get(prefix, 0)
            if most == 0 or (what.data is None and self.size_of(prefix) + what.size > most):
                raise NoRoom(f"{prefix} may not write so much")
        self.put(key, what)

    def get_by(self, url: str) -> Stored:
        """Raises ``ObjectRefused``."""
        found = self.kept.get(self._checked(url, "get"))
        if found is None:
            raise ObjectRefused("no such object")
        return found

    def _checked(self, url: str, method: str) -> str:
        allowed, until_s, key = url.split(":", 2)
        if allowed != method or self._loop.time() >= float(until_s):
            raise ObjectRefused("the URL has expired")
        return key


class SimulatedBlobs:
    """The daemon's way to the store (``BlobStore``)."""

    def __init__(self, ground: Ground, objects: Objects, rng: random.Random) -> None:
        self._objects = objects
        self._ground = ground
        self._rng = rng
        self.put_headers: Mapping[str, str] = {}

    async def _reach(self) -> dict[str, Stored]:
        await asyncio.sleep(self._rng.uniform(0.002, 0.03))
        if self._ground.faults.bursts("J1", STORE, self._ground.now_s):
            raise BlobUnavailable("the store answered 503")
        return self._objects.kept

    async def put(self, key: str, data: bytes) -> None:
        await self._reach()
        self._ground.check.write_object(key, data)
        self._objects.put(check_key(key), stored(data))
        self._ground.version += 1

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        found = (await self._reach()).get(check_key(key))
        return None if found is None or found.data is None else found.data[:most_bytes]

    async def size(self, key: str) -> int | None:
        found = (await self._reach()).get(check_key(key))
        return None if found is None else found.size

    async def sha256(self, key: str) -> str | None:
        found = (await self._reach()).get(check_key(key))
        return None if found is None else found.sha256

    async def delete_prefix(self, prefix: str) -> None:
        await self.delete(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        kept = await self._reach()
        return {key: each.size for key, each in kept.items() if key.startswith(prefix + "/") or key == prefix}

    async def delete(self, keys: Collection[str]) -> None:
        kept = await self._reach()
        for key in keys:
            self._ground.check.delete_object(key)
            kept.pop(key, None)
        self._ground.version += 1

    async def admit(self, prefixes: Mapping[str, int]) -> None:
        if self._objects.keeps_gate:
            await self._reach()
            self._objects.admit(prefixes)

    async def grant(self, write: Collection[str], read: Collection[str]) -> None:
        """It gives no keys, as most stores."""

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        return f"get:{self._ground.now_s + valid_for.total_seconds():.0f}:{key}"

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int = MAX_OBJECT_BYTES) -> str:
        return f"put:{self._ground.now_s + valid_for.total_seconds():.0f}:{key}"
