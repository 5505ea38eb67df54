"""What happened: bids, decisions, events, and the program's own notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, or_, select

from autopilot.domain.job import JobStatus
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import bids, decisions, events, jobs, leases, notes
from autopilot.store.statements import SqlRepository

_FINAL = [status for status in JobStatus if status.is_final]


class SqlBids(SqlRepository):
    __slots__ = ()

    async def save(self, record: BidRecord) -> None:
        await self._sql.upsert(bids, [values_of(bids, record)])

    async def list_by_job(self, job_id: str) -> tuple[BidRecord, ...]:
        return await self._select(
            select(bids).join(leases, leases.c.id == bids.c.lease_id).where(leases.c.job_id == job_id)
        )

    async def list_by_lease(self, lease_id: str) -> tuple[BidRecord, ...]:
        return await self._select(select(bids).where(bids.c.lease_id == lease_id))

    async def _select(self, chosen: Select[Any]) -> tuple[BidRecord, ...]:
        """Oldest first."""
        rows = await self._sql.fetch_all(chosen.order_by(bids.c.at, bids.c.id))
        return tuple(record_of(BidRecord, bids, row) for row in rows)


class SqlDecisions(SqlRepository):
    __slots__ = ()

    async def add(self, record: DecisionRecord) -> None:
        await self._sql.run(insert(decisions), [values_of(decisions, record)])

    async def list_by_job(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        chosen = select(decisions).where(decisions.c.job_id == job_id).order_by(decisions.c.seq.desc()).limit(limit)
        return tuple(record_of(DecisionRecord, decisions, row) for row in await self._sql.fetch_all(chosen))

    async def list_newest(
        self, *, limit: int, before: str = "", owner: int | None = None
    ) -> tuple[DecisionRecord, ...]:
        chosen = select(decisions).order_by(decisions.c.seq.desc()).limit(limit)
        if before:
            known = select(decisions.c.seq).where(decisions.c.id == before).scalar_subquery()
            chosen = chosen.where(decisions.c.seq < known)
        if owner is not None:
            chosen = chosen.join(jobs, jobs.c.id == decisions.c.job_id).where(jobs.c.owner == owner)
        return tuple(record_of(DecisionRecord, decisions, row) for row in await self._sql.fetch_all(chosen))

    async def forget(self, before: datetime) -> int:
        return (await self._sql.run(delete(decisions).where(decisions.c.job_id.in_(jobs_over(before))))).rowcount


class SqlEvents(SqlRepository):
    __slots__ = ()

    async def add(self, records: Iterable[EventRecord]) -> None:
        rows = [values_of(events, record) for record in records]
        if rows:
            await self._sql.run(insert(events), rows)

    async def list_after(
        self, seq: int = 0, *, limit: int = 1000, since: datetime | None = None
    ) -> tuple[EventRecord, ...]:
        chosen = select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(limit)
        return await self._select(chosen if since is None else chosen.where(events.c.at >= since))

    async def find_newest(self) -> EventRecord | None:
        return next(iter(await self._select(select(events).order_by(events.c.seq.desc()).limit(1))), None)

    async def list_by_job(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        newest = select(events).where(events.c.job_id == job_id).order_by(events.c.seq.desc()).limit(limit)
        return (await self._select(newest))[::-1]

    async def list_named(self, name: str, job_ids: Collection[str], *, limit: int) -> tuple[EventRecord, ...]:
        if not job_ids:
            return ()
        chosen = select(events).where(events.c.job_id.in_(job_ids), events.c.name == name)
        return (await self._select(chosen.order_by(events.c.seq.desc()).limit(limit)))[::-1]

    async def list_by_lease(self, lease_id: str) -> tuple[EventRecord, ...]:
        return await self._select(select(events).where(events.c.lease_id == lease_id).order_by(events.c.seq))

    async def forget(self, before: datetime) -> int:
        old_and_of_none = events.c.job_id.is_(None) & (events.c.at < before)
        # The newest stays: on SQLite the next one would else get its number again.
        newest = select(func.max(events.c.seq)).scalar_subquery()
        is_old = or_(events.c.job_id.in_(jobs_over(before)), old_and_of_none)
        return (await self._sql.run(delete(events).where(is_old, events.c.seq < newest))).rowcount

    async def _select(self, chosen: Select[Any]) -> tuple[EventRecord, ...]:
        return tuple(record_of(EventRecord, events, row) for row in await self._sql.fetch_all(chosen))


class SqlNotes(SqlRepository):
    __slots__ = ()

    async def get(self, key: str) -> str | None:
        row = await self._sql.fetch_first(select(notes.c.value).where(notes.c.key == key))
        return None if row is None else str(row[0])

    async def set(self, key: str, value: str) -> None:
        await self._sql.upsert(notes, [{"key": key, "value": value}])


def jobs_over(before: datetime) -> Select[tuple[str]]:
    """The ids of jobs that were over by then."""
    return select(jobs.c.id).where(jobs.c.status.in_(_FINAL), jobs.c.finished_at < before)
