"""The append-only ledger: posting, and the sums over it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import (
    BILL_TYPES,
    RESERVE_TYPES,
    SPEND_TYPES,
    EntryType,
    KindAndDay,
    LeaseBooks,
    LedgerEntry,
    sum_given_back,
)
from autopilot.domain.money import ZERO
from autopilot.ports.store import OwnerTotals, Totals
from autopilot.store.leases import UNSETTLED
from autopilot.store.rollup import roll_up
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import jobs, leases, ledger_entries
from autopilot.store.statements import SqlRepository

_entry = ledger_entries.c
_is_spend = _entry.type.in_(SPEND_TYPES)
_total = func.coalesce(func.sum(_entry.amount), ZERO, type_=_entry.amount.type)


class SqlLedger(SqlRepository):
    __slots__ = ()

    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        given = {entry.id: entry for entry in reversed(tuple(entries))}
        rows = [values_of(ledger_entries, entry) for entry in given.values()]
        new = await self._sql.append_new(ledger_entries, rows)
        await roll_up(self._sql, [given[entry_id] for (entry_id,) in new])
        return len(new)

    async def list_entries(self, lease_id: str) -> tuple[LedgerEntry, ...]:
        chosen = select(ledger_entries).where(_entry.lease_id == lease_id).order_by(_entry.posted_at, _entry.id)
        return tuple(record_of(LedgerEntry, ledger_entries, row) for row in await self._sql.fetch_all(chosen))

    async def sum_corrections(
        self, since: datetime, *, job_id: str | None = None, from_day: date | None = None
    ) -> Decimal:
        billed = and_(_entry.type.in_(BILL_TYPES), _entry.posted_at >= since)
        if from_day is not None:
            billed = and_(billed, _entry.day >= from_day)
        sums = select(_total).where(billed)
        if job_id is not None:
            sums = sums.where(_entry.job_id == job_id)
        ((total,),) = await self._sql.fetch_all(sums)
        return Decimal(total) - await self._sum_released(since, job_id)

    async def _sum_released(self, since: datetime, job_id: str | None) -> Decimal:
        moved = select(_entry.lease_id).where(_entry.type.in_(RESERVE_TYPES), _entry.posted_at > since)
        moved = moved if job_id is None else moved.where(_entry.job_id == job_id)
        gone = select(leases.c.id).where(leases.c.gone_at <= since, leases.c.id.in_(moved))
        billed = case((and_(_entry.type.in_(BILL_TYPES), _entry.posted_at < since), _entry.amount), else_=ZERO)
        held = case((and_(_entry.type.in_(RESERVE_TYPES), _entry.posted_at > since), _entry.amount), else_=ZERO)
        typed = _entry.amount.type
        sums = (func.coalesce(func.sum(each), ZERO, type_=typed) for each in (billed, held))
        rows = await self._sql.fetch_all(select(*sums).where(_entry.lease_id.in_(gone)).group_by(_entry.lease_id))
        return sum((sum_given_back(Decimal(before), Decimal(since_then)) for before, since_then in rows), ZERO)

    async def sum_by_day(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        sums: dict[str, dict[tuple[CostKind, date], Decimal]] = {lease_id: {} for lease_id in lease_ids}
        key = (_entry.lease_id, _entry.kind, _entry.day)
        chosen = select(*key, func.sum(_entry.amount)).where(_entry.lease_id.in_(lease_ids), _is_spend).group_by(*key)
        for lease_id, kind, day, amount in await self._sql.fetch_all(chosen):
            sums[lease_id][kind, day] = amount
        return sums

    async def sum_totals(self, day: date) -> Totals:
        first, after = _month_of(day)
        on_day = case((_entry.day == day, _entry.amount), else_=ZERO)
        sums = select(func.coalesce(func.sum(on_day), ZERO, type_=_entry.amount.type), _total)
        (row,) = await self._sql.fetch_all(sums.where(_entry.day >= first, _entry.day < after, _is_spend))
        return Totals(day=row[0], month=row[1])

    async def sum_owners(self, owners: Collection[int], since: date | None) -> OwnerTotals:
        return await self._sum_jobs(jobs.c.owner.in_(owners), since)

    async def sum_schedule(self, schedule_id: str, since: date | None) -> OwnerTotals:
        return await self._sum_jobs(jobs.c.schedule_id == schedule_id, since)

    async def sum_market(self, provider: str, since: datetime | None) -> OwnerTotals:
        certifications = select(jobs.c.id).where(jobs.c.certifies > "")
        counts = or_(_entry.job_id.is_(None), _entry.job_id.not_in(certifications))
        of_market = select(_total).join_from(ledger_entries, leases, _entry.lease_id == leases.c.id)
        of_market = of_market.where(_entry.provider == provider, counts)
        if since is not None:
            of_market = of_market.where(leases.c.intended_at >= since)
        spend = of_market.where(_is_spend)
        held = of_market.where(UNSETTLED, _entry.type.in_(RESERVE_TYPES))
        ((posted,),), ((reserved,),) = await self._sql.fetch_all(spend), await self._sql.fetch_all(held)
        return OwnerTotals(Decimal(posted), Decimal(reserved))

    async def _sum_jobs(self, are_meant: ColumnElement[bool], since: date | None) -> OwnerTotals:
        of_jobs = _entry.job_id.in_(select(jobs.c.id).where(are_meant))
        spend = select(_total).where(of_jobs, _is_spend)
        if since is not None:
            spend = spend.where(_entry.day >= since)
        held = select(_total).where(of_jobs, _entry.lease_id.in_(_select_unsettled()), _entry.type.in_(RESERVE_TYPES))
        ((posted,),), ((reserved,),) = await self._sql.fetch_all(spend), await self._sql.fetch_all(held)
        return OwnerTotals(Decimal(posted), Decimal(reserved))

    async def sum_arrays(self, array_ids: Collection[str]) -> Mapping[str, OwnerTotals]:
        of_arrays = jobs.c.array_id.in_(array_ids)
        spend = select(jobs.c.array_id, func.sum(_entry.amount)).join_from(
            jobs, ledger_entries, _entry.job_id == jobs.c.id
        )
        spend = spend.where(of_arrays).group_by(jobs.c.array_id)
        held = spend.where(_entry.lease_id.in_(_select_unsettled()), _entry.type.in_(RESERVE_TYPES))
        posted = dict(map(tuple, await self._sql.fetch_all(spend.where(_is_spend))))
        reserved = dict(map(tuple, await self._sql.fetch_all(held)))
        return {id: OwnerTotals(posted.get(id, ZERO), reserved.get(id, ZERO)) for id in array_ids}

    async def sum_held(self) -> Mapping[str | None, Decimal]:
        # By the job that has the lease now: of a reused machine other tasks have set aside, and given back.
        sums = select(leases.c.job_id, func.sum(_entry.amount)).join_from(
            leases, ledger_entries, _entry.lease_id == leases.c.id
        )
        held = sums.where(UNSETTLED, _entry.type.in_(RESERVE_TYPES)).group_by(leases.c.job_id)
        return {job_id: amount for job_id, amount in await self._sql.fetch_all(held)}

    async def sum_books(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        accrued: dict[str, dict[KindAndDay, Decimal]] = {lease_id: {} for lease_id in lease_ids}
        reserved = dict.fromkeys(lease_ids, (ZERO, 0))
        key = (_entry.lease_id, _entry.type, _entry.kind, _entry.day)
        sums = select(*key, func.sum(_entry.amount), func.count()).group_by(*key)
        sums = sums.where(_entry.lease_id.in_(lease_ids), _entry.type.in_((EntryType.ACCRUE, *RESERVE_TYPES)))
        for lease_id, type_, kind, day, amount, rows in await self._sql.fetch_all(sums):
            if type_ is EntryType.ACCRUE:
                accrued[lease_id][kind, day] = amount
            else:
                before, count = reserved[lease_id]
                reserved[lease_id] = before + amount, count + rows
        return {lease_id: LeaseBooks(accrued[lease_id], *reserved[lease_id]) for lease_id in lease_ids}


def _select_unsettled() -> Select[Any]:
    return select(leases.c.id).where(UNSETTLED)


def _month_of(day: date) -> tuple[date, date]:
    """The first day of the month and of the next one."""
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
