"""Leases in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.tables import MemoryTables, hour_of

Row = TypeVar("Row")


class MemoryLeases(MemoryRepository):
    __slots__ = ()

    async def save(self, lease: Lease) -> None:
        with self._access.write() as tables:
            tables.put_lease(lease)

    async def get(self, lease_id: str) -> Lease | None:
        return self._access.read().leases.get(lease_id)

    async def search(self, reference: str) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._access.read().leases.values()
            if reference in (lease.id, lease.instance_id, lease.label)
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id), reverse=True))

    async def list_by_job(self, job_id: str) -> tuple[Lease, ...]:
        return await self.list_by_jobs((job_id,))

    async def list_by_jobs(self, job_ids: Collection[str]) -> tuple[Lease, ...]:
        tables = self._access.read()
        held = {id for job in job_ids for id in tables.leases_by_job.get(job) or ()}
        return gather_leases(tables, held | {id for job in job_ids for id in tables.leases_used_by.get(job) or ()})

    async def list_by_label(self, labels: Collection[str]) -> tuple[Lease, ...]:
        tables = self._access.read()
        return gather_leases(tables, (id for label in set(labels) for id in tables.leases_by_label.get(label) or ()))

    async def list_orphans(self) -> tuple[Lease, ...]:
        tables = self._access.read()
        return tuple(lease for lease in gather_leases(tables, tables.live_leases) if lease.job_id is None)

    async def list_unsettled(self) -> tuple[Lease, ...]:
        tables = self._access.read()
        return gather_leases(tables, tables.unsettled)

    async def list_spot(self, intended_since: datetime) -> tuple[Lease, ...]:
        tables = self._access.read()
        spot = (lease for lease in gather_leases(tables, tables.leases) if lease.is_spot and lease.instance_id)
        return tuple(lease for lease in spot if lease.intended_at >= intended_since)

    async def list_ended(self, reasons: Collection[Reason], ended_since: datetime) -> tuple[Lease, ...]:
        tables = self._access.read()
        ended = (lease for lease in gather_leases(tables, tables.leases) if not lease.is_wanted)
        found = (lease for lease in ended if lease.reason in reasons)
        return tuple(lease for lease in found if lease.end_asked_at >= ended_since)

    async def count_launches(self, since: datetime) -> Mapping[str | None, LaunchCount]:
        tables = self._access.read()
        first = hour_of(since)
        hours = [hour for hour in tables.launches if hour >= first]
        ids = (id for hour in hours for id in tables.launches.get(hour) or ())
        launched = [lease for id in ids if (lease := require(tables.leases.get(id))).intended_at >= since]
        abandoned = (lease for lease in launched if lease.state is LeaseState.ABANDONED)
        refused = Counter(lease.job_id for lease in abandoned if lease.instance_id is None)
        intended = Counter(lease.job_id for lease in launched)
        return {job_id: LaunchCount(intended[job_id] - refused[job_id], refused[job_id]) for job_id in intended}

    async def list_to_reconcile(self, gone_since: datetime) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._access.read().leases.values()
            if lease.instance_id is not None and _is_concerned(lease, gone_since)
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))

    async def list_unresolved(self, intended_since: datetime) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._access.read().leases.values()
            if lease.state is LeaseState.ABANDONED
            and lease.instance_id is None
            and lease.create_unknown
            and lease.intended_at >= intended_since
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))


def gather_leases(tables: MemoryTables, ids: Iterable[str]) -> tuple[Lease, ...]:
    """Oldest first."""
    found = [require(tables.leases.get(id)) for id in ids]
    return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))


def require(row: Row | None) -> Row:
    assert row is not None, "an index names a row that is not there"
    return row


def _is_concerned(lease: Lease, gone_since: datetime) -> bool:
    if lease.state is LeaseState.GONE:
        return lease.ending.gone_at is not None and lease.ending.gone_at >= gone_since
    return not lease.is_over
