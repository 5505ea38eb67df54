"""What happened, in memory: bids, decisions, events, and the program's own notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import islice

from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.tables import MemoryTables


class MemoryBids(MemoryRepository):
    __slots__ = ()

    async def save(self, record: BidRecord) -> None:
        with self._access.write() as tables:
            tables.put_bid(record)

    async def list_by_job(self, job_id: str) -> tuple[BidRecord, ...]:
        tables = self._access.read()
        ids = (id for lease in tables.leases_by_job.get(job_id) or () for id in tables.bids_by_lease.get(lease) or ())
        return tuple(sorted(filter(None, map(tables.bids.get, ids)), key=lambda bid: (bid.at, bid.id)))

    async def list_by_lease(self, lease_id: str) -> tuple[BidRecord, ...]:
        tables = self._access.read()
        found = filter(None, map(tables.bids.get, tables.bids_by_lease.get(lease_id) or ()))
        return tuple(sorted(found, key=lambda bid: (bid.at, bid.id)))


class MemoryDecisions(MemoryRepository):
    __slots__ = ()

    async def add(self, record: DecisionRecord) -> None:
        with self._access.write() as tables:
            tables.add_decision(record)

    async def list_by_job(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        found = [record for record in self._access.read().decisions.values() if record.job_id == job_id]
        return tuple(found[::-1][:limit])

    async def list_newest(
        self, *, limit: int, before: str = "", owner: int | None = None
    ) -> tuple[DecisionRecord, ...]:
        tables = self._access.read()
        newest = list(tables.decisions.values())[::-1]
        if before:
            place = next((number for number, record in enumerate(newest) if record.id == before), len(newest))
            newest = newest[place + 1 :]
        jobs = tables.jobs
        seen = (
            record
            for record in newest
            if owner is None or ((job := jobs.get(record.job_id)) is not None and job.owner == owner)
        )
        return tuple(islice(seen, limit))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            over = jobs_over(tables, before)
            forgotten = [record.id for record in tables.decisions.values() if record.job_id in over]
            for record_id in forgotten:
                tables.decisions.remove(record_id)
            return len(forgotten)


class MemoryEvents(MemoryRepository):
    __slots__ = ()

    async def add(self, records: Iterable[EventRecord]) -> None:
        with self._access.write() as tables:
            for record in records:
                tables.add_event(record)

    async def list_after(
        self, seq: int = 0, *, limit: int = 1000, since: datetime | None = None
    ) -> tuple[EventRecord, ...]:
        tables = self._access.read()
        seqs = range(max(seq, 0) + 1, (tables.last_seq.get("events") or 0) + 1)
        found = filter(None, map(tables.events.get, seqs))
        return tuple(islice((each for each in found if since is None or each.at >= since), limit))

    async def find_newest(self) -> EventRecord | None:
        tables = self._access.read()
        return tables.events.get(tables.last_seq.get("events") or 0)

    async def list_by_job(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        tables = self._access.read()
        backwards = filter(None, map(tables.events.get, range(tables.last_seq.get("events") or 0, 0, -1)))
        return tuple(islice((event for event in backwards if event.job_id == job_id), limit))[::-1]

    async def list_named(self, name: str, job_ids: Collection[str], *, limit: int) -> tuple[EventRecord, ...]:
        wanted = set(job_ids)
        found = [each for each in self._access.read().events.values() if each.name == name and each.job_id in wanted]
        return tuple(sorted(found, key=lambda event: event.seq))[-limit:]

    async def list_by_lease(self, lease_id: str) -> tuple[EventRecord, ...]:
        found = [event for event in self._access.read().events.values() if event.lease_id == lease_id]
        return tuple(sorted(found, key=lambda event: event.seq))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            over = jobs_over(tables, before)
            forgotten = [
                event.seq
                for event in tables.events.values()
                if (event.job_id in over or (event.job_id is None and event.at < before))
                and event.seq < (tables.last_seq.get("events") or 0)
            ]
            for seq in forgotten:
                tables.events.remove(seq)
            return len(forgotten)


class MemoryNotes(MemoryRepository):
    __slots__ = ()

    async def get(self, key: str) -> str | None:
        return self._access.read().notes.get(key)

    async def set(self, key: str, value: str) -> None:
        with self._access.write() as tables:
            tables.notes.put(key, value)


def jobs_over(tables: MemoryTables, before: datetime) -> frozenset[str]:
    """The ids of jobs that were over by then."""
    return frozenset(
        job.id
        for job in tables.jobs.values()
        if job.status.is_final and job.finished_at is not None and job.finished_at < before
    )
