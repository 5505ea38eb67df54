"""Which checkpoints stay in the store: the newest few of each job, and every part that one of them names."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import structlog

from autopilot.domain.job import Checkpoint, Job
from autopilot.engine.event_log import checkpoint_lost, checkpoint_set_aside
from autopilot.mailbox.checkpoints import is_still_whole, kept_manifest
from autopilot.mailbox.keys import parse_manifest_key, verified_key
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.store import Store, UnitOfWork
from autopilot.ports.unpacking import Unpacker

log = structlog.get_logger(__name__)

FEWEST_KEPT = 2
"""Checkpoints that are always kept, even if the job file asks for fewer: the newest may fail to restore."""

_CHECKPOINT_OBJECT = re.compile(r"jobs/[^/]+/(?P<lease>[^/]+)/ckpt/(?P<n>\d+)/(?:part-\d+|manifest\.json)")


MOST_DROPPED = 1000
MACHINES_IN_DOUBT = 2
"""So many machines that cannot restore a checkpoint are believed, though the daemon finds nothing wrong with it."""


class Doubt(NamedTuple):
    """What one machine says of a checkpoint: that it cannot make files of it."""

    checkpoint: Checkpoint
    lease_id: str
    machine_id: str


class CheckpointRetention:
    def __init__(self, store: Store, blobs: BlobStore, unpacker: Unpacker) -> None:
        self._store = store
        self._blobs = blobs
        self._unpacker = unpacker
        self._tidied: dict[str, Checkpoint] = {}
        self._looks: dict[Checkpoint, asyncio.Task[bool]] = {}
        self._looked_for: dict[Checkpoint, set[Doubt]] = {}
        self._unfounded: set[Doubt] = set()

    async def delete_surplus(self, jobs: Sequence[Job]) -> None:
        """Once after each new checkpoint; what cannot be deleted now is tried again when the next one comes."""
        for job in jobs:
            if job.checkpoint is None or self._tidied.get(job.id) == job.checkpoint:
                continue
            keep = max(job.spec.checkpoints_kept, FEWEST_KEPT)
            try:
                await self._delete_surplus_of(job.id, keep)
            except BlobUnavailable as problem:
                log.warning("checkpoint.undeleted", job=job.id, reason=str(problem))
                continue
            self._tidied[job.id] = job.checkpoint

    def note_new(self, checkpoint: Checkpoint) -> None:
        """It may make others surplus, also where the job would not begin from it."""
        self._tidied.pop(checkpoint.job_id, None)

    async def reconsider(self, doubts: Sequence[Doubt], now: datetime) -> None:
        """Read again what a machine says is harmed. If it is, the job goes on from an older one.

        Reading takes longer than a tick may: a later one acts upon what this one began. What was found whole is not
        read again for the same machine: it may lie, and reading costs money. Once a second machine cannot restore it
        either, it is set aside all the same.
        """
        self._unfounded.intersection_update(doubts)
        for doubt in doubts:
            if doubt in self._unfounded:
                continue
            checkpoint = doubt.checkpoint
            self._looked_for.setdefault(checkpoint, set()).add(doubt)
            if checkpoint not in self._looks:
                where = checkpoint.job_id, checkpoint.lease_id, checkpoint.number
                self._looks[checkpoint] = asyncio.create_task(is_still_whole(self._blobs, self._unpacker, *where))
        for checkpoint, look in list(self._looks.items()):
            if not look.done():
                continue
            del self._looks[checkpoint]
            doubted = self._looked_for.pop(checkpoint)
            if look.exception() is not None:
                continue  # unknown: the machine tries again
            if look.result():
                self._unfounded |= doubted
                await self._weigh(checkpoint, {doubt.machine_id for doubt in doubted}, now)
                continue
            log.error("checkpoint.lost", job=checkpoint.job_id, number=checkpoint.number)
            async with self._store.transaction() as uow:
                await uow.checkpoints.remove(checkpoint)
                await uow.events.add([checkpoint_lost(checkpoint, now)])

    async def _weigh(self, checkpoint: Checkpoint, machines: set[str], now: datetime) -> None:
        """Remember which machines cannot restore what is whole; step back once there are enough of them."""
        key, name = f"unrestorable.{checkpoint.job_id}", f"{checkpoint.lease_id}.{checkpoint.number}"
        async with self._store.transaction() as uow:
            before = json.loads(await uow.notes.get(key) or "{}")
            machines = machines | set(before.get("machines", ()) if before.get("checkpoint") == name else ())
            await uow.notes.set(key, json.dumps({"checkpoint": name, "machines": sorted(machines)}))
            known = [each for each in await uow.checkpoints.list_by_job(checkpoint.job_id) if not each.is_set_aside]
            if len(machines) < MACHINES_IN_DOUBT or not known or known[0] != checkpoint:
                return
            older = next_to_try(known)
            if older is None:
                log.error("checkpoint.unrestorable", job=checkpoint.job_id, number=checkpoint.number)
                return
            await set_aside_newer(uow, known, older, "machines", now)

    async def _delete_surplus_of(self, job_id: str, keep: int) -> None:
        # The store is listed before the ledger is read: all that is listed, of another daemon's leases too, is known.
        present = await self._blobs.sizes(f"jobs/{job_id}")
        async with self._store.snapshot() as uow:
            known = await uow.checkpoints.list_by_job(job_id)
            leases = await uow.leases.list_by_job(job_id)
            dropped = await list_dropped(uow, job_id)
        ours = {lease.id for lease in leases}
        working = {lease.id for lease in leases if not lease.is_over}
        kept = keep_of(known, keep, {lease.id: lease.machine_id for lease in leases})
        surplus = [checkpoint for checkpoint in known if checkpoint not in kept]
        needed: set[str] = set()
        for checkpoint in kept:
            manifest = await kept_manifest(self._blobs, job_id, checkpoint.lease_id, checkpoint.number)
            if manifest is None:
                log.error("checkpoint.manifest_missing", job=job_id, number=checkpoint.number)
                return  # without it the parts that it needs are unknown
            needed.update(manifest.part_keys(job_id, checkpoint.lease_id))
        newest = {c.lease_id: c.number for c in sorted(known, key=lambda c: c.age)}
        unknown = await self._list_unknown(job_id, present, newest, dropped)
        needed |= await self._list_needed(job_id, unknown)
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
            is_kept_manifest = key.endswith(".json") and (lease_id, number) in kept_numbers | unknown
            if not is_under_way and not is_kept_manifest:
                doomed.append(key)
        doomed += [verified_key(job_id, checkpoint.lease_id, checkpoint.number) for checkpoint in surplus]
        await self._blobs.delete(doomed)
        if surplus:
            async with self._store.transaction() as uow:
                for checkpoint in surplus:
                    await uow.checkpoints.remove(checkpoint)

    async def _list_unknown(
        self, job_id: str, present: Iterable[str], newest: Mapping[str, int], dropped: Collection[tuple[str, int]]
    ) -> set[tuple[str, int]]:
        """Verified checkpoints, by lease and number, that are newer than what this ledger has of their machines: it was
        put back from an older copy."""
        found = (parse_manifest_key(job_id, key) for key in present)
        copies = {(name[0], name[1]) for name in found if name is not None and name[2]}
        return {name for name in copies - set(dropped) if name[1] > newest.get(name[0], -1)}

    async def _list_needed(self, job_id: str, names: Iterable[tuple[str, int]]) -> set[str]:
        """The parts of these. Raises ``BlobUnavailable``."""
        manifests = {name: await kept_manifest(self._blobs, job_id, *name) for name in names}
        return {key for (lease, _), each in manifests.items() if each for key in each.part_keys(job_id, lease)}


async def list_dropped(uow: UnitOfWork, job_id: str) -> frozenset[tuple[str, int]]:
    """Checkpoints of the job, by lease and number, that it was told not to go on from, or that were harmed."""
    told = [
        record
        for name in ("checkpoint.set_aside", "checkpoint.lost")
        for record in await uow.events.list_named(name, [job_id], limit=MOST_DROPPED)
    ]
    return frozenset((record.lease_id or "", int(str(dict(record.fields)["number"]))) for record in told)


def keep_of(known: Sequence[Checkpoint], keep: int, machine_of: Mapping[str, str]) -> list[Checkpoint]:
    """Of ``known``, by ``order``: the first few, and the first of another lease and of another machine.

    One machine cannot replace all that others have left, however many it writes. What is set aside stays until there is
    a newer one: only then has the one that was chosen in its place proved better.
    """
    chosen = [checkpoint for checkpoint in known if not checkpoint.is_set_aside]
    first = chosen[0] if chosen else None
    kept = chosen[:keep] + [each for each in known if each.is_set_aside and not (first and first.age > each.age)]
    if first is None:
        return kept
    machine = machine_of.get(first.lease_id)
    others = [checkpoint for checkpoint in chosen if checkpoint.lease_id != first.lease_id]
    elsewhere = [checkpoint for checkpoint in others if machine_of.get(checkpoint.lease_id) != machine]
    return kept + [checkpoint for checkpoint in dict.fromkeys(others[:1] + elsewhere[:1]) if checkpoint not in kept]


def next_to_try(known: Sequence[Checkpoint]) -> Checkpoint | None:
    """Of ``known``, newest first, when the newest cannot be restored: that of another lease, else the one before."""
    others = (checkpoint for checkpoint in known[1:] if checkpoint.lease_id != known[0].lease_id)
    return next(others, None) or next(iter(known[1:]), None)


async def set_aside_newer(
    uow: UnitOfWork, known: Sequence[Checkpoint], chosen: Checkpoint | None, by: str, now: datetime
) -> Checkpoint | None:
    """Make ``chosen`` the first of ``known``; None: none of them. ``by``: who wants it, ``user``, ``run`` or
    ``machines``. None is deleted before the job has a newer one. Answers the chosen one as it is then."""
    if chosen is not None and chosen.is_set_aside:
        await uow.checkpoints.set_aside(chosen, is_set_aside=False)
        chosen = replace(chosen, is_set_aside=False)
    for checkpoint in known:
        if checkpoint.is_set_aside or (chosen is not None and checkpoint.order <= chosen.order):
            continue
        log.warning("checkpoint.set_aside", job=checkpoint.job_id, number=checkpoint.number, by=by)
        await uow.checkpoints.set_aside(checkpoint, is_set_aside=True)
        await uow.events.add([checkpoint_set_aside(checkpoint, by, now)])
    return chosen
