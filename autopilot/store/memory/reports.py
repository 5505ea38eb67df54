"""What reports read, in memory: spend per lease, kind and day, and the whole life of one lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.spend import Cell, LeaseFacts, SpendPart, SpendSource
from autopilot.ports.store import BidRecord, EventRecord
from autopilot.store.memory.queries import Queries


class ReportQueries(Queries):
    async def spend_source(
        self,
        since: date | None = None,
        before: date | None = None,
        *,
        job_id: str | None = None,
        per: SpendPart | None = None,
        with_spans: bool = False,
    ) -> SpendSource:
        tables = self._reading()
        cells: list[Cell] = []
        for lease_id in tables.posted:
            lease = tables.leases.get(lease_id)
            if lease is None or job_id not in (None, lease.job_id):
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
        return SpendSource(
            {lease.id: self._facts(lease) for lease in held},
            cells,
            {lease_id: stretches for lease_id, stretches in ran.items() if stretches},
            {lease.id: lease.spans for lease in held if lease.spans} if with_spans else {},
        )

    async def leases_found(self, reference: str) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._reading().leases.values()
            if reference in (lease.id, lease.instance_id, lease.label)
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id), reverse=True))

    async def bids_on(self, lease_id: str) -> tuple[BidRecord, ...]:
        tables = self._reading()
        found = filter(None, map(tables.bids.get, tables.bids_by_lease.get(lease_id) or ()))
        return tuple(sorted(found, key=lambda bid: (bid.at, bid.id)))

    async def events_about(self, lease_id: str) -> tuple[EventRecord, ...]:
        found = [event for event in self._reading().events.values() if event.lease_id == lease_id]
        return tuple(sorted(found, key=lambda event: event.seq))

    def _facts(self, lease: Lease) -> LeaseFacts:
        job = None if lease.job_id is None else self._reading().jobs.get(lease.job_id)
        facts = LeaseFacts(
            lease.id,
            lease.job_id,
            None if job is None else job.spec.name,
            lease.provider,
            lease.instance_id,
            lease.gpu,
            lease.num_gpus,
            lease.on_demand_price,
        )
        if lease.on_demand_price is not None:
            return facts
        return replace(facts, on_demand_price=self._lowest_on_demand(lease))

    def _lowest_on_demand(self, lease: Lease) -> Decimal | None:
        seen = (
            price.on_demand_price
            for price in self._reading().prices.values()
            if (price.provider, price.gpu, price.num_gpus) == (lease.provider, lease.gpu, lease.num_gpus)
            and price.on_demand_price is not None
            and price.observed_at >= lease.intended_at
            and (lease.ending.gone_at is None or price.observed_at <= lease.ending.gone_at)
        )
        return min((rate for rate in seen if rate is not None), default=None)


def _part(day: date, per: SpendPart | None) -> date | None:
    if per is None:
        return None
    return day if per == "day" else day.replace(day=1)
