"""What happened: bids, decisions, events, prices seen, and the program's own notes."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import insert, select

from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import bids, decisions, events, leases, notes
from autopilot.store.statements import Statements


class HistoryStatements(Statements):
    async def add_bid(self, record: BidRecord) -> None:
        await self._upsert(bids, [values_of(bids, record)])

    async def bids_of(self, job_id: str) -> tuple[BidRecord, ...]:
        """Oldest first."""
        chosen = select(bids).join(leases, leases.c.id == bids.c.lease_id).where(leases.c.job_id == job_id)
        return tuple(record_of(BidRecord, bids, row) for row in await self._all(chosen.order_by(bids.c.at, bids.c.id)))

    async def add_decision(self, record: DecisionRecord) -> None:
        await self._run(insert(decisions), [values_of(decisions, record)])

    async def decisions_of(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        chosen = select(decisions).where(decisions.c.job_id == job_id).order_by(decisions.c.seq.desc()).limit(limit)
        return tuple(record_of(DecisionRecord, decisions, row) for row in await self._all(chosen))

    async def add_events(self, records: Iterable[EventRecord]) -> None:
        rows = [values_of(events, record) for record in records]
        if rows:
            await self._run(insert(events), rows)

    async def events_after(self, seq: int = 0, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        rows = await self._all(select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(limit))
        return tuple(record_of(EventRecord, events, row) for row in rows)

    async def events_of(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        newest = select(events).where(events.c.job_id == job_id).order_by(events.c.seq.desc()).limit(limit)
        return tuple(record_of(EventRecord, events, row) for row in reversed(await self._all(newest)))

    async def note(self, key: str) -> str | None:
        row = await self._first(select(notes.c.value).where(notes.c.key == key))
        return None if row is None else str(row[0])

    async def set_note(self, key: str, value: str) -> None:
        await self._upsert(notes, [{"key": key, "value": value}])
