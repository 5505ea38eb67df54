"""The daemon's own reading of a checkpoint: what a rented machine says about one is a claim until this agrees."""

from __future__ import annotations

from autopilot.ports.blobs import BlobStore
from autopilot.ports.mailbox import MAX_OBJECT_BYTES, Manifest, manifest_key, parse_manifest, part_key


async def read_manifest(store: BlobStore, job_id: str, lease_id: str, n: int) -> Manifest | None:
    """The manifest of checkpoint ``n``, None when there is none or it is not one. Raises ``BlobUnavailable``."""
    key = manifest_key(job_id, lease_id, n)
    size = await store.size(key)
    if size is None or size > MAX_OBJECT_BYTES:
        return None
    manifest = parse_manifest(await store.get(key) or b"")
    return manifest if manifest is not None and manifest.n == n else None


async def verified_manifest(store: BlobStore, job_id: str, lease_id: str, n: int) -> Manifest | None:
    """The manifest of checkpoint ``n`` if every part is there with the size and SHA-256 that it names, else None.

    Reads the whole checkpoint. Raises ``BlobUnavailable``, which proves nothing either way.
    """
    manifest = await read_manifest(store, job_id, lease_id, n)
    if manifest is None:
        return None
    for i, part in enumerate(manifest.parts):
        key = part_key(job_id, lease_id, n, i)
        if await store.size(key) != part.size or await store.sha256(key) != part.sha256:
            return None
    return manifest
