"""The daemon's own reading of a checkpoint: what a rented machine says about one is a claim until this agrees."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from autopilot.mailbox.keys import manifest_key, outputs_prefix, verified_key, verified_outputs_key
from autopilot.mailbox.reading import parse_manifest
from autopilot.mailbox.report_shapes import Manifest, Part
from autopilot.mailbox.wire import MAX_INDEX_BYTES, MAX_OBJECT_BYTES
from autopilot.ports.blobs import BlobStore
from autopilot.ports.unpacking import Unpacker, Unrestorable

log = structlog.get_logger(__name__)

READS_AT_ONCE = 4


async def read_manifest(store: BlobStore, job_id: str, lease_id: str, number: int) -> Manifest | None:
    """The manifest of checkpoint ``number``, None when there is none or it is not one. Raises ``BlobUnavailable``."""
    return await _manifest(store, manifest_key(job_id, lease_id, number), number)


async def verified_manifest(
    store: BlobStore,
    unpacker: Unpacker,
    job_id: str,
    lease_id: str,
    number: int,
    trusted: Collection[Part] = (),
    most_bytes: int | None = None,
) -> Manifest | None:
    """The manifest of checkpoint ``number`` if another machine can restore it, else None.

    Every part is there with the size and SHA-256 that it names; its index is read as a restore reads it. Reads all of
    it, but for the parts in ``trusted`` (``contents``), which were verified before. One that is larger than
    ``most_bytes``, stored or unpacked, is not read. Raises ``BlobUnavailable``, which proves nothing either way.
    """
    manifest = await read_manifest(store, job_id, lease_id, number)
    if manifest is None or not _fits(manifest, most_bytes):
        return None
    return manifest if await _is_restorable(store, unpacker, job_id, lease_id, manifest, trusted) else None


async def is_still_whole(store: BlobStore, unpacker: Unpacker, job_id: str, lease_id: str, number: int) -> bool:
    """Whether a checkpoint that was verified once is as it was then. Reads all of it; raises ``BlobUnavailable``."""
    manifest = await kept_manifest(store, job_id, lease_id, number)
    return manifest is not None and await _is_restorable(store, unpacker, job_id, lease_id, manifest, ())


async def verified_outputs(
    store: BlobStore, unpacker: Unpacker, job_id: str, lease_id: str, run_epoch: int, most_bytes: int | None = None
) -> Manifest | None:
    """The same for the outputs of a run; the daemon's own copy is written as well."""
    manifest = await _manifest(store, f"{outputs_prefix(job_id, lease_id, run_epoch)}/manifest.json", run_epoch)
    if manifest is None or not _fits(manifest, most_bytes):
        return None
    if not all("/out/" in part.key and part.content_sha256 is None for part in manifest.parts):
        return None
    index, *others = manifest.parts
    data = await _index(store, manifest.part_keys(job_id, lease_id)[0], index)
    try:
        await unpacker.check_index(data or b"", [part.size for part in others])
    except Unrestorable as problem:
        log.warning("outputs.unreadable", job=job_id, lease=lease_id, reason=str(problem))
        return None
    if not await _is_whole(store, unpacker, job_id, lease_id, manifest, ()):
        return None
    await store.put(verified_outputs_key(job_id), manifest.to_json())
    return manifest


async def kept_outputs(store: BlobStore, job_id: str) -> Manifest | None:
    """The outputs of a job that has ended well, None when it has none. Raises ``BlobUnavailable``."""
    return parse_manifest(await store.get(verified_outputs_key(job_id)) or b"")


def _fits(manifest: Manifest, most_bytes: int | None) -> bool:
    return most_bytes is None or max(manifest.size, manifest.content_size) <= most_bytes


async def _is_restorable(
    store: BlobStore,
    unpacker: Unpacker,
    job_id: str,
    lease_id: str,
    manifest: Manifest,
    trusted: Collection[Part],
) -> bool:
    data = await _index(store, manifest.part_keys(job_id, lease_id)[0], manifest.parts[0])
    own = _with_whole_keys(manifest, job_id, lease_id).to_json()
    try:
        await unpacker.check_checkpoint(own, lease_id, data or b"")
    except Unrestorable as problem:
        log.warning("checkpoint.unrestorable", job=job_id, lease=lease_id, number=manifest.number, reason=str(problem))
        return False
    return await _is_whole(store, unpacker, job_id, lease_id, manifest, trusted)


async def _index(store: BlobStore, key: str, part: Part) -> bytes | None:
    """Its content, None when it is not what the manifest says."""
    if part.size > MAX_INDEX_BYTES or await store.size(key) != part.size:
        return None
    data = await store.get(key, MAX_INDEX_BYTES)
    return data if data is not None and hashlib.sha256(data).hexdigest() == part.sha256 else None


async def _is_whole(
    store: BlobStore, unpacker: Unpacker, job_id: str, lease_id: str, manifest: Manifest, trusted: Collection[Part]
) -> bool:
    claims = contents(manifest, job_id, lease_id) - set(trusted)
    gate, unpacking = asyncio.Semaphore(READS_AT_ONCE), asyncio.Lock()  # what is unpacked is held in memory

    async def holds(part: Part) -> bool:
        async with gate:
            if await store.size(part.key) != part.size:
                return False
            if part.content_sha256 is None or part.content_sha256 == part.sha256:
                return await store.sha256(part.key) == part.sha256
            async with unpacking:
                return await _unpacks(store, unpacker, part)

    looks = [asyncio.ensure_future(holds(claim)) for claim in claims]
    try:
        return all(await asyncio.gather(*looks))
    finally:
        for look in looks:  # once one has failed, the others are not needed
            look.cancel()


async def _unpacks(store: BlobStore, unpacker: Unpacker, part: Part) -> bool:
    """Whether what comes out of a compressed part is what its manifest says."""
    data = await store.get(part.key, part.size)
    if data is None or hashlib.sha256(data).hexdigest() != part.sha256:
        return False
    try:
        content = await unpacker.content_of(data, part.content_size or 0)
    except Unrestorable:
        return False
    return content == (part.content_size, part.content_sha256)


async def keep_verified(
    store: BlobStore,
    job_id: str,
    lease_id: str,
    manifest: Manifest,
    verified_at: datetime | None = None,
    work_done: timedelta | None = None,
) -> None:
    """Write the daemon's own copy, with keys that name their lease, and what only the ledger knows beside.

    Raises ``BlobUnavailable``.
    """
    own = json.loads(_with_whole_keys(manifest, job_id, lease_id).to_json())
    if verified_at is not None and work_done is not None:
        own |= {"verified_at": verified_at.isoformat(), "work_done_s": work_done.total_seconds()}
    await store.put(verified_key(job_id, lease_id, manifest.number), json.dumps(own).encode())


def _with_whole_keys(manifest: Manifest, job_id: str, lease_id: str) -> Manifest:
    start = len(f"jobs/{job_id}/")
    keys = (key[start:] for key in manifest.part_keys(job_id, lease_id))
    parts = tuple(replace(part, key=key) for part, key in zip(manifest.parts, keys, strict=True))
    return replace(manifest, parts=parts)


async def kept_manifest(store: BlobStore, job_id: str, lease_id: str, number: int) -> Manifest | None:
    """The daemon's own copy, None when there is none. Raises ``BlobUnavailable``."""
    return await _manifest(store, verified_key(job_id, lease_id, number), number)


class KeptCopy(NamedTuple):
    """The daemon's own copy of a manifest, and what it knew of it. Copies of the version before tell neither."""

    manifest: Manifest
    verified_at: datetime | None
    work_done: timedelta | None


async def kept_copy(store: BlobStore, job_id: str, lease_id: str, number: int) -> KeptCopy | None:
    """As ``kept_manifest``. Raises ``BlobUnavailable``."""
    manifest = await kept_manifest(store, job_id, lease_id, number)
    if manifest is None:
        return None
    try:
        said = json.loads(await store.get(verified_key(job_id, lease_id, number)) or b"")
        return KeptCopy(
            manifest, datetime.fromisoformat(said["verified_at"]), timedelta(seconds=float(said["work_done_s"]))
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        return KeptCopy(manifest, None, None)


def contents(manifest: Manifest, job_id: str, lease_id: str) -> frozenset[Part]:
    """Its parts, each under the key of its blob: equal only if all that is said of them is."""
    keys = manifest.part_keys(job_id, lease_id)
    return frozenset(replace(part, key=key) for key, part in zip(keys, manifest.parts, strict=True))


async def _manifest(store: BlobStore, key: str, number: int) -> Manifest | None:
    size = await store.size(key)
    if size is None or size > MAX_OBJECT_BYTES:
        return None
    manifest = parse_manifest(await store.get(key) or b"")
    return manifest if manifest is not None and manifest.number == number else None
