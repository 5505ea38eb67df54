"""What the store holds of a job that the ledger does not know: machines by the daemon's notes, and checkpoints.

A ledger that was put back from an older copy lacks both. Nothing here changes anything but the daemon's own copy of a
manifest that was just verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.labels import label_for
from autopilot.domain.lease import Lease
from autopilot.engine.checkpoint_retention import list_dropped
from autopilot.engine.mailbox import MOST_REJECTED, readable_bytes
from autopilot.engine.rental_notes import find_note
from autopilot.mailbox.checkpoints import (
    KeptCopy,
    is_still_whole,
    keep_verified,
    kept_copy,
    read_manifest,
    verified_manifest,
)
from autopilot.mailbox.keys import parse_manifest_key, parse_rental_key, verified_key, verified_prefix
from autopilot.mailbox.report_shapes import Manifest
from autopilot.ports.blobs import BlobStore
from autopilot.ports.store import UnitOfWork
from autopilot.ports.unpacking import Unpacker

MOST_NOTES = 500
"""The records of one job's newest machines."""
MOST_MANIFESTS = 500
READS_AT_ONCE = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger has of the job."""

    leases: Mapping[str, Lease]
    checkpoints: tuple[Checkpoint, ...]
    dropped: frozenset[tuple[str, int]]
    """Checkpoints, by lease and number, that were set aside or lost."""

    def is_news(self, lease_id: str, number: int) -> bool:
        """A checkpoint of a machine that the ledger does not know, or a later one than it knows of that machine."""
        newest = max((each.number for each in self.checkpoints if each.lease_id == lease_id), default=-1)
        return lease_id not in self.leases or number > newest

    @classmethod
    async def read(cls, uow: UnitOfWork, job_id: str) -> Known:
        leases = {lease.id: lease for lease in await uow.leases.list_by_job(job_id)}
        return cls(leases, await uow.checkpoints.list_by_job(job_id), await list_dropped(uow, job_id))


@dataclass(frozen=True, slots=True)
class PassedOver:
    """``number`` None: it is about the machine."""

    lease_id: str
    number: int | None
    why: str


@dataclass(frozen=True, slots=True)
class InStore:
    leases: tuple[Lease, ...] = ()
    """Machines that the ledger does not know, oldest first, as the ledger that was lost had them."""
    chosen: Checkpoint | None = None
    """The newest that was verified; None: there is none that is newer than the ledger's."""
    verified_before: datetime | None = None
    """When the daemon that was lost had verified it, where it had."""
    passed_over: tuple[PassedOver, ...] = ()
    missing: tuple[Checkpoint, ...] = ()
    """Those of the ledger that the store has no more: the ledger that was lost had deleted them since."""
    run_epoch: int = 0
    """The highest that any machine of the job had."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    manifest: Manifest
    lease: Lease
    copy: KeptCopy | None
    """The daemon's own copy, which no machine can have changed."""

    @property
    def rank(self) -> tuple[int, int, bool]:
        return self.manifest.run_epoch, self.manifest.number, self.copy is not None


async def list_noted(blobs: BlobStore, job_id: str) -> set[str]:
    """Machines of the job that the daemon has noted. One listing of what it keeps; raises ``BlobUnavailable``."""
    listed = await blobs.sizes(verified_prefix(job_id))
    return {lease_id for key in listed if (lease_id := parse_rental_key(job_id, key)) is not None}


class Look:
    """One look. ``install_id``: in the labels of our machines."""

    def __init__(self, blobs: BlobStore, unpacker: Unpacker, install_id: str, job: Job, known: Known) -> None:
        self._blobs = blobs
        self._unpacker = unpacker
        self._install_id = install_id
        self._job = job
        self._known = known
        self._passed: list[PassedOver] = []

    async def read_machines(self) -> dict[str, Lease]:
        """By id, as the daemon has noted them, known or not. Raises ``BlobUnavailable``."""
        noted = sorted(await list_noted(self._blobs, self._job.id), reverse=True)
        for lease_id in noted[MOST_NOTES:]:
            self._pass(lease_id, None, f"older than the newest {MOST_NOTES} machines: not read")
        found = await _gather(find_note(self._blobs, self._job.id, lease_id) for lease_id in noted[:MOST_NOTES])
        machines: dict[str, Lease] = {}
        for lease_id, lease in zip(noted, found, strict=False):
            if lease is None or lease.label != label_for(self._install_id, lease_id):
                self._pass(lease_id, None, "what is noted of it is not of this job and this installation")
            else:
                machines[lease_id] = lease
        return machines

    async def read_all(self, now: datetime) -> InStore:
        """Raises ``BlobUnavailable``, which proves nothing either way."""
        machines = await self.read_machines()
        listed = await self._blobs.sizes(f"jobs/{self._job.id}")
        missing = [
            each
            for each in self._known.checkpoints
            if verified_key(self._job.id, each.lease_id, each.number) not in listed
        ]
        candidates = await self._list_candidates(listed, machines)
        chosen, before = await self._choose(candidates, now)
        epochs = [self._job.run_epoch, *(lease.orders.run_epoch for lease in machines.values())]
        unknown = sorted(machines.keys() - self._known.leases.keys())
        return InStore(
            leases=tuple(machines[lease_id] for lease_id in unknown),
            chosen=chosen,
            verified_before=before,
            passed_over=tuple(self._passed),
            missing=tuple(missing),
            run_epoch=max(epochs),
        )

    async def _list_candidates(self, listed: Iterable[str], machines: Mapping[str, Lease]) -> list[_Candidate]:
        """Newest first: those of machines that the ledger does not know, and later ones of those that it knows."""
        own: dict[tuple[str, int], bool] = {}
        for found in (parse_manifest_key(self._job.id, key) for key in listed):
            if found is not None and self._known.is_news(found[0], found[1]):
                own[found[0], found[1]] = own.get((found[0], found[1]), False) or found[2]
        for lease_id, number in sorted(own.keys() & self._known.dropped):
            del own[lease_id, number]
            self._pass(lease_id, number, "it was set aside, or had been harmed")
        names = sorted(own, reverse=True)
        for lease_id, number in names[MOST_MANIFESTS:]:
            self._pass(lease_id, number, f"beyond the newest {MOST_MANIFESTS}: not read")
        names = names[:MOST_MANIFESTS]
        read = await _gather(self._read(machines, *name, is_own=own[name]) for name in names)
        return sorted((each for each in read if each is not None), key=lambda each: each.rank, reverse=True)

    async def _read(
        self, machines: Mapping[str, Lease], lease_id: str, number: int, *, is_own: bool
    ) -> _Candidate | None:
        lease = machines.get(lease_id) or self._known.leases.get(lease_id)
        if lease is None:
            self._pass(lease_id, number, "nothing says where its machine was rented")
            return None
        copy = await kept_copy(self._blobs, self._job.id, lease_id, number) if is_own else None
        manifest = copy.manifest if copy else await read_manifest(self._blobs, self._job.id, lease_id, number)
        if manifest is None:
            self._pass(lease_id, number, "its manifest is none")
            return None
        if manifest.run_epoch > lease.orders.run_epoch:
            why = f"written under run epoch {manifest.run_epoch}, and its machine had {lease.orders.run_epoch}"
            self._pass(lease_id, number, why)
            return None
        return _Candidate(manifest, lease, copy)

    async def _choose(
        self, candidates: Sequence[_Candidate], now: datetime
    ) -> tuple[Checkpoint | None, datetime | None]:
        ours, tries = self._job.checkpoint, 0
        for each in candidates:
            number, lease_id = each.manifest.number, each.lease.id
            if ours is not None and (each.manifest.run_epoch, number) <= ours.order:
                self._pass(lease_id, number, _older_than(ours, each.manifest))
            elif tries >= MOST_REJECTED:
                self._pass(lease_id, number, f"not read: {MOST_REJECTED} newer ones were not whole")
            elif await self._is_whole(each, now):
                return self._checkpoint(each, now), each.copy.verified_at if each.copy else None
            else:
                tries += 1
                self._pass(lease_id, number, "not whole: a part is missing, or not what its manifest says")
        return None, None

    async def _is_whole(self, each: _Candidate, now: datetime) -> bool:
        where = self._job.id, each.lease.id, each.manifest.number
        if each.copy is not None:
            return await is_still_whole(self._blobs, self._unpacker, *where)
        manifest = await verified_manifest(self._blobs, self._unpacker, *where, most_bytes=readable_bytes(each.lease))
        if manifest is None or manifest != each.manifest:
            return False
        await keep_verified(self._blobs, self._job.id, each.lease.id, manifest, now, self._job.work_done)
        return True

    def _checkpoint(self, each: _Candidate, now: datetime) -> Checkpoint:
        manifest = each.manifest
        work_done = each.copy.work_done if each.copy else None
        return Checkpoint(
            job_id=self._job.id,
            lease_id=each.lease.id,
            number=manifest.number,
            run_epoch=manifest.run_epoch,
            step=manifest.step or 0,
            work_done=self._job.work_done if work_done is None else work_done,
            size_bytes=manifest.size,
            part_count=len(manifest.parts),
            verified_at=now,
        )

    def _pass(self, lease_id: str, number: int | None, why: str) -> None:
        self._passed.append(PassedOver(lease_id, number, why))


def _older_than(ours: Checkpoint, manifest: Manifest) -> str:
    """Two machines may have had one epoch, where a job went on before its store was asked: the steps tell more."""
    known = f"checkpoint {ours.number} of run epoch {ours.run_epoch} at step {ours.step}"
    return f"no newer than {known}, which the ledger knows: epoch {manifest.run_epoch}, step {manifest.step or 0}"


async def _gather(reads: Iterable[Awaitable[T]]) -> list[T]:
    """In their order, a few at a time."""
    gate = asyncio.Semaphore(READS_AT_ONCE)

    async def read(each: Awaitable[T]) -> T:
        async with gate:
            return await each

    return await asyncio.gather(*map(read, reads))
