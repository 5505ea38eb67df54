"""The daemon's own reading of a checkpoint: what a rented machine says about one is a claim until this agrees."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from autopilot.mailbox.keys import manifest_key, outputs_prefix, verified_key, verified_outputs_key
from autopilot.mailbox.reading import parse_manifest
from autopilot.mailbox.report_shapes import Manifest
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot.ports.blobs import BlobStore

READS_AT_ONCE = 4


async def read_manifest(store: BlobStore, job_id: str, lease_id: str, number: int) -> Manifest | None:
    """The manifest of checkpoint ``number``, None when there is none or it is not one. Raises ``BlobUnavailable``."""
    return await _manifest(store, manifest_key(job_id, lease_id, number), number)


async def verified_manifest(
    store: BlobStore,
    job_id: str,
    lease_id: str,
    number: int,
    trusted: Collection[tuple[str, int, str]] = (),
    most_bytes: int | None = None,
) -> Manifest | None:
    """The manifest of checkpoint ``number`` if every part is there with the size and SHA-256 that it names, else None.

    Reads all of it, but for the parts in ``trusted``: (key, size, SHA-256) of what was verified before. One that is
    larger than ``most_bytes`` is not read. Raises ``BlobUnavailable``, which proves nothing either way.
    """
    manifest = await read_manifest(store, job_id, lease_id, number)
    if manifest is not None and most_bytes is not None and manifest.size > most_bytes:
        return None
    return manifest if manifest is not None and await _is_whole(store, job_id, lease_id, manifest, trusted) else None


async def is_still_whole(store: BlobStore, job_id: str, lease_id: str, number: int) -> bool:
    """Whether a checkpoint that was verified once is as it was then. Reads all of it; raises ``BlobUnavailable``."""
    manifest = await kept_manifest(store, job_id, lease_id, number)
    return manifest is not None and await _is_whole(store, job_id, lease_id, manifest, ())


async def verified_outputs(
    store: BlobStore, job_id: str, lease_id: str, run_epoch: int, most_bytes: int | None = None
) -> Manifest | None:
    """The same for the outputs of a run; the daemon's own copy is written as well."""
    manifest = await _manifest(store, f"{outputs_prefix(job_id, lease_id, run_epoch)}/manifest.json", run_epoch)
    if manifest is None or not all("/out/" in part.key for part in manifest.parts):
        return None
    if most_bytes is not None and manifest.size > most_bytes:
        return None
    if not await _is_whole(store, job_id, lease_id, manifest, ()):
        return None
    await store.put(verified_outputs_key(job_id), manifest.to_json())
    return manifest


async def kept_outputs(store: BlobStore, job_id: str) -> Manifest | None:
    """The outputs of a job that has ended well, None when it has none. Raises ``BlobUnavailable``."""
    return parse_manifest(await store.get(verified_outputs_key(job_id)) or b"")


async def _is_whole(
    store: BlobStore, job_id: str, lease_id: str, manifest: Manifest, trusted: Collection[tuple[str, int, str]]
) -> bool:
    claims = contents(manifest, job_id, lease_id) - set(trusted)
    gate = asyncio.Semaphore(READS_AT_ONCE)

    async def holds(key: str, size: int, sha256: str) -> bool:
        async with gate:
            return await store.size(key) == size and await store.sha256(key) == sha256

    looks = [asyncio.ensure_future(holds(*claim)) for claim in claims]
    try:
        return all(await asyncio.gather(*looks))
    finally:
        for look in looks:  # once one has failed, the others read for nobody
            look.cancel()


async def keep_verified(store: BlobStore, job_id: str, lease_id: str, manifest: Manifest) -> None:
    """Write the daemon's own copy, with keys that name their lease. Raises ``BlobUnavailable``."""
    start = len(f"jobs/{job_id}/")
    keys = (key[start:] for key in manifest.part_keys(job_id, lease_id))
    parts = tuple(replace(part, key=key) for part, key in zip(manifest.parts, keys, strict=True))
    await store.put(verified_key(job_id, lease_id, manifest.n), replace(manifest, parts=parts).to_json())


async def kept_manifest(store: BlobStore, job_id: str, lease_id: str, number: int) -> Manifest | None:
    """The daemon's own copy, None when there is none. Raises ``BlobUnavailable``."""
    return await _manifest(store, verified_key(job_id, lease_id, number), number)


def contents(manifest: Manifest, job_id: str, lease_id: str) -> frozenset[tuple[str, int, str]]:
    """(key, size, SHA-256) of each part."""
    keys = manifest.part_keys(job_id, lease_id)
    return frozenset((key, part.size, part.sha256) for key, part in zip(keys, manifest.parts, strict=True))


async def _manifest(store: BlobStore, key: str, number: int) -> Manifest | None:
    size = await store.size(key)
    if size is None or size > MAX_OBJECT_BYTES:
        return None
    manifest = parse_manifest(await store.get(key) or b"")
    return manifest if manifest is not None and manifest.n == number else None
