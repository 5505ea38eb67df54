"""Which checkpoints stay in the store: the newest few of each job, and every part that one of them names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import structlog

from autopilot.domain.job import Checkpoint, Job
from autopilot.engine.event_log import checkpoint_lost
from autopilot.mailbox.checkpoints import is_still_whole, kept_manifest
from autopilot.mailbox.keys import verified_key
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)

FEWEST_KEPT = 2
"""Checkpoints that are always kept, whatever the job file says: the newest may yet prove bad to restore."""

_CHECKPOINT_OBJECT = re.compile(r"jobs/[^/]+/(?P<lease>[^/]+)/ckpt/(?P<n>\d+)/(?:part-\d+|manifest\.json)")


class Doubt(NamedTuple):
    """What one machine says of a checkpoint: that what it fetched is not what the manifest says."""

    checkpoint: Checkpoint
    lease_id: str


class CheckpointRetention:
    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs
        self._tidied: dict[str, tuple[int, int]] = {}
        self._looks: dict[Checkpoint, asyncio.Task[bool]] = {}
        self._looked_for: dict[Checkpoint, set[Doubt]] = {}
        self._unfounded: set[Doubt] = set()

    async def delete_surplus(self, jobs: Sequence[Job]) -> None:
        """Once after each new checkpoint; what cannot be deleted now is tried again when the next one comes."""
        for job in jobs:
            if job.checkpoint is None or self._tidied.get(job.id) == job.checkpoint.order:
                continue
            keep = max(job.spec.checkpoints_kept, FEWEST_KEPT)
            try:
                await self._delete_surplus_of(job.id, keep)
            except BlobUnavailable as problem:
                log.warning("checkpoint.undeleted", job=job.id, reason=str(problem))
                continue
            self._tidied[job.id] = job.checkpoint.order

    async def reconsider(self, doubts: Sequence[Doubt], now: datetime) -> None:
        """Read again what a machine says is harmed. If it is, the job goes on from an older one.

        Reading takes longer than a tick may: a later one acts upon what this one began. What was found whole is not
        read again for the same machine: it may lie, and reading costs money.
        """
        self._unfounded.intersection_update(doubts)
        for doubt in doubts:
            if doubt in self._unfounded:
                continue
            checkpoint = doubt.checkpoint
            self._looked_for.setdefault(checkpoint, set()).add(doubt)
            if checkpoint not in self._looks:
                where = checkpoint.job_id, checkpoint.lease_id, checkpoint.number
                self._looks[checkpoint] = asyncio.create_task(is_still_whole(self._blobs, *where))
        for checkpoint, look in list(self._looks.items()):
            if not look.done():
                continue
            del self._looks[checkpoint]
            doubted = self._looked_for.pop(checkpoint)
            if look.exception() is not None:
                continue  # nobody can say: the machine tries again
            if look.result():
                self._unfounded |= doubted
                continue
            log.error("checkpoint.lost", job=checkpoint.job_id, number=checkpoint.number)
            async with self._store.transaction() as uow:
                await uow.checkpoints.remove(checkpoint)
                await uow.events.add([checkpoint_lost(checkpoint, now)])

    async def _delete_surplus_of(self, job_id: str, keep: int) -> None:
        # The store is listed before the ledger is read: whatever is listed, of another daemon's leases too, is known.
        present = await self._blobs.keys(f"jobs/{job_id}")
        async with self._store.snapshot() as uow:
            known = await uow.checkpoints.list_by_job(job_id)
            leases = await uow.leases.list_by_job(job_id)
        ours = {lease.id for lease in leases}
        working = {lease.id for lease in leases if not lease.is_over}
        kept, surplus = known[:keep], known[keep:]
        needed: set[str] = set()
        for checkpoint in kept:
            manifest = await kept_manifest(self._blobs, job_id, checkpoint.lease_id, checkpoint.number)
            if manifest is None:
                log.error("checkpoint.manifest_missing", job=job_id, number=checkpoint.number)
                return  # without it nobody knows which parts it needs
            needed.update(manifest.part_keys(job_id, checkpoint.lease_id))
        newest = {c.lease_id: c.number for c in reversed(known)}
        kept_numbers = {(c.lease_id, c.number) for c in kept}
        doomed = []
        for key in present:
            found = _CHECKPOINT_OBJECT.fullmatch(key)
            if found is None or key in needed:
                continue
            lease_id, number = found["lease"], int(found["n"])
            if lease_id not in ours:
                continue  # this ledger is older than what is there: it may be the best that the job has
            is_under_way = lease_id in working and number > newest.get(lease_id, -1)
            is_kept_manifest = key.endswith(".json") and (lease_id, number) in kept_numbers
            if not is_under_way and not is_kept_manifest:
                doomed.append(key)
        doomed += [verified_key(job_id, checkpoint.lease_id, checkpoint.number) for checkpoint in surplus]
        await self._blobs.delete(doomed)
        if surplus:
            async with self._store.transaction() as uow:
                for checkpoint in surplus:
                    await uow.checkpoints.remove(checkpoint)
