"""What reports read, in memory: spend per lease, kind and day, and how a month compares with the market's lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import SPEND_TYPES, EntryType
from autopilot.domain.money import ZERO
from autopilot.domain.reconciliation import ReconciliationRow, compare_books
from autopilot.domain.spend import Cell, LeaseFacts, SpendPart, SpendSource, of_task
from autopilot.domain.time import month_bounds
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryReports(MemoryRepository):
    __slots__ = ()

    async def sum_spend(
        self,
        since: date | None = None,
        before: date | None = None,
        *,
        job_id: str | None = None,
        per: SpendPart | None = None,
        with_spans: bool = False,
        with_tags: bool = False,
    ) -> SpendSource:
        tables = self._access.read()
        cells: list[Cell] = []
        used = tables.leases_used_by.get(job_id) or () if job_id is not None else ()
        shared = [lease for lease in filter(None, map(tables.leases.get, used)) if len(lease.uses) > 1]
        per = "day" if shared else per
        for lease_id in tables.posted:
            lease = tables.leases.get(lease_id)
            if lease is None or not (lease in shared or job_id in (None, lease.job_id, self._array_of(lease))):
                continue
            sums: dict[tuple[CostKind, date | None], Decimal] = {}
            for (kind, day), amount in (tables.posted.get(lease_id) or {}).items():
                if (since is None or day >= since) and (before is None or day < before):
                    key = kind, _part(day, per)
                    sums[key] = sums.get(key, ZERO) + amount
            cells += [Cell(lease_id, day, kind, amount) for (kind, day), amount in sums.items()]
        held = [lease for lease in map(tables.leases.get, {cell.lease_id for cell in cells}) if lease is not None]
        ran = {
            lease.id: [(s.started_at, s.ended_at) for s in lease.spans if s.status is InstanceStatus.RUNNING]
            for lease in held
        }
        source = SpendSource(
            {lease.id: self._facts(lease, with_tags=with_tags) for lease in held},
            cells,
            {lease_id: stretches for lease_id, stretches in ran.items() if stretches},
            {lease.id: lease.spans for lease in held if lease.spans} if with_spans else {},
        )
        return of_task(source, shared, job_id) if shared and job_id is not None else source

    async def reconcile(self, month: str) -> tuple[ReconciliationRow, ...]:
        tables = self._access.read()
        first, after = month_bounds(month)
        sums: dict[tuple[str, EntryType, CostKind, date], Decimal] = {}
        for entry in tables.entries.values():
            if entry.type in SPEND_TYPES and first <= entry.day < after:
                key = entry.lease_id, entry.type, entry.kind, entry.day
                sums[key] = sums.get(key, ZERO) + entry.amount
        lines = [line for line in tables.invoice_lines.values() if first <= line.day < after]
        concerned = {key[0] for key in sums} | {line.lease_id for line in lines}
        leases = sorted(
            filter(None, map(tables.leases.get, concerned)), key=lambda lease: (lease.intended_at, lease.id)
        )
        return compare_books(
            [(lease.id, lease.provider, lease.instance_id, lease.job_id, lease.gpu) for lease in leases],
            [(*key, amount) for key, amount in sums.items()],
            lines,
        )

    def _array_of(self, lease: Lease) -> str | None:
        job = None if lease.job_id is None else self._access.read().jobs.get(lease.job_id)
        return None if job is None else job.array_id

    def _facts(self, lease: Lease, *, with_tags: bool) -> LeaseFacts:
        job = None if lease.job_id is None else self._access.read().jobs.get(lease.job_id)
        facts = LeaseFacts(
            lease.id,
            lease.job_id,
            None if job is None else job.spec.name,
            lease.provider,
            lease.instance_id,
            lease.gpu,
            lease.num_gpus,
            lease.on_demand_price,
            None if job is None else job.owner,
            job.spec.tags if job is not None and with_tags else (),
            None if job is None else job.array_id,
        )
        if lease.on_demand_price is not None:
            return facts
        return replace(facts, on_demand_price=self._lowest_on_demand(lease))

    def _lowest_on_demand(self, lease: Lease) -> Decimal | None:
        seen = (
            price.on_demand_price
            for price in self._access.read().prices.values()
            if (price.provider, price.gpu, price.num_gpus) == (lease.provider, lease.gpu, lease.num_gpus)
            and price.on_demand_price is not None
            and price.observed_at >= lease.intended_at
            and (lease.ending.gone_at is None or price.observed_at <= lease.ending.gone_at)
        )
        return min((price for price in seen if price is not None), default=None)


def _part(day: date, per: SpendPart | None) -> date | None:
    if per is None:
        return None
    return day if per == "day" else day.replace(day=1)
