"""What happened, in memory: bids, decisions, events, prices seen, and the program's own notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store.memory.queries import Queries


class HistoryQueries(Queries):
    async def add_bid(self, record: BidRecord) -> None:
        with self._writing() as tables:
            tables.put_bid(record)

    async def bids_of(self, job_id: str) -> tuple[BidRecord, ...]:
        tables = self._reading()
        ids = (id for lease in tables.leases_by_job.get(job_id) or () for id in tables.bids_by_lease.get(lease) or ())
        return tuple(sorted(filter(None, map(tables.bids.get, ids)), key=lambda bid: (bid.at, bid.id)))

    async def add_decision(self, record: DecisionRecord) -> None:
        with self._writing() as tables:
            tables.add_decision(record)

    async def decisions_of(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        found = [record for record in self._reading().decisions.values() if record.job_id == job_id]
        return tuple(found[::-1][:limit])

    async def add_events(self, records: Iterable[EventRecord]) -> None:
        with self._writing() as tables:
            for record in records:
                tables.add_event(record)

    async def events_after(self, seq: int = 0, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        tables = self._reading()
        seqs = range(max(seq, 0) + 1, (tables.last_seq.get("events") or 0) + 1)
        return tuple(islice(filter(None, map(tables.events.get, seqs)), limit))

    async def events_of(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        tables = self._reading()
        backwards = filter(None, map(tables.events.get, range(tables.last_seq.get("events") or 0, 0, -1)))
        return tuple(islice((event for event in backwards if event.job_id == job_id), limit))[::-1]

    async def note(self, key: str) -> str | None:
        return self._reading().notes.get(key)

    async def set_note(self, key: str, value: str) -> None:
        with self._writing() as tables:
            tables.notes.put(key, value)
