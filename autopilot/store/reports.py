"""What reports read: spend from the rollup, and how the entries of a month compare with the market's lines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, extract, func, or_, select

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease, Span
from autopilot.domain.ledger import SPEND_TYPES, InvoiceLine
from autopilot.domain.reconciliation import ReconciliationRow, compare_books
from autopilot.domain.spend import Cell, LeaseFacts, SpendPart, SpendSource, of_task
from autopilot.domain.time import month_bounds
from autopilot.store.leases import SHARED, SqlLeases, are_of
from autopilot.store.rows import record_of
from autopilot.store.schema import (
    invoice_lines,
    jobs,
    lease_spans,
    leases,
    ledger_entries,
    price_observations,
    spend_daily,
)
from autopilot.store.statements import SqlRepository

_sum = spend_daily.c
_span = lease_spans.c
_price = price_observations.c
_entry = ledger_entries.c
_line = invoice_lines.c


class SqlReports(SqlRepository):
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
        chosen = _within(since, before)
        shared: tuple[Lease, ...] = ()
        if job_id is not None:
            tasks = select(jobs.c.id).where(jobs.c.array_id == job_id)
            of_job = or_(are_of((job_id,)), leases.c.job_id.in_(tasks))
            chosen.append(_sum.lease_id.in_(select(leases.c.id).where(of_job)))
            shared = await SqlLeases(self._sql).select(are_of((job_id,)), leases.c.id.in_(SHARED))
        cells = await self._cells(chosen, "day" if shared else per)
        concerned = select(_sum.lease_id).where(*chosen).distinct()
        facts = await self._facts(concerned)
        if with_tags:
            facts = await self._add_tags(facts, concerned)
        spans = await self._spans(concerned) if with_spans else {}
        source = SpendSource(facts, cells, await self._ran(concerned), spans)
        return source if job_id is None or not shared else of_task(source, shared, job_id)

    async def reconcile(self, month: str) -> tuple[ReconciliationRow, ...]:
        first, after = month_bounds(month)
        key = (_entry.lease_id, _entry.type, _entry.kind, _entry.day)
        sums = select(*key, func.sum(_entry.amount)).group_by(*key)
        spend = await self._sql.fetch_all(
            sums.where(_entry.day >= first, _entry.day < after, _entry.type.in_(SPEND_TYPES))
        )
        in_month = select(invoice_lines).where(_line.day >= first, _line.day < after)
        lines = [record_of(InvoiceLine, invoice_lines, row) for row in await self._sql.fetch_all(in_month)]
        facts = (leases.c.id, leases.c.provider, leases.c.instance_id, leases.c.job_id, leases.c.gpu)
        concerned = {row[0] for row in spend} | {line.lease_id for line in lines}
        chosen = select(*facts).where(leases.c.id.in_(concerned)).order_by(leases.c.intended_at, leases.c.id)
        found = await self._sql.fetch_all(chosen)
        return compare_books(
            [(row[0], row[1], row[2], row[3], row[4]) for row in found],
            [(row[0], row[1], row[2], row[3], row[4]) for row in spend],
            lines,
        )

    async def _cells(self, chosen: list[ColumnElement[bool]], per: SpendPart | None) -> list[Cell]:
        if per == "day":
            rows = await self._sql.fetch_all(select(_sum.lease_id, _sum.day, _sum.kind, _sum.amount).where(*chosen))
            return [Cell(*row) for row in rows]
        month = (extract("year", _sum.day), extract("month", _sum.day)) if per == "month" else ()
        key = (_sum.lease_id, _sum.kind, *month)
        sums = select(_sum.lease_id, _sum.kind, func.sum(_sum.amount, type_=_sum.amount.type), *month)
        rows = await self._sql.fetch_all(sums.where(*chosen).group_by(*key))
        return [
            Cell(lease_id, _first_of_month(*named) if named else None, kind, amount)
            for lease_id, kind, amount, *named in rows
        ]

    async def _facts(self, concerned: Any) -> dict[str, LeaseFacts]:
        lease = leases.c
        columns = (lease.id, lease.job_id, jobs.c.name, lease.provider, lease.instance_id, lease.gpu, lease.num_gpus)
        more = lease.on_demand_price, jobs.c.owner, jobs.c.array_id
        joined = select(*columns, *more).outerjoin(jobs, jobs.c.id == lease.job_id)
        rows = await self._sql.fetch_all(joined.where(lease.id.in_(concerned)))
        facts = {row[0]: replace(LeaseFacts(*row[:9]), array_id=row[9]) for row in rows}
        unknown = [lease_id for lease_id, fact in facts.items() if fact.on_demand_price is None]
        if not unknown:
            return facts
        lowest = await self._lowest_on_demand(concerned)
        return facts | {
            lease_id: replace(facts[lease_id], on_demand_price=lowest[lease_id])
            for lease_id in unknown
            if lease_id in lowest
        }

    async def _add_tags(self, facts: dict[str, LeaseFacts], concerned: Any) -> dict[str, LeaseFacts]:
        of_these = select(leases.c.job_id).where(leases.c.id.in_(concerned)).distinct()
        rows = await self._sql.fetch_all(select(jobs.c.id, jobs.c.spec).where(jobs.c.id.in_(of_these)))
        tags = {job_id: spec.tags for job_id, spec in rows}
        return {lease_id: replace(each, tags=tags.get(each.job_id, ())) for lease_id, each in facts.items()}

    async def _lowest_on_demand(self, concerned: Any) -> dict[str, Any]:
        """By lease: the least that its market asked on demand for as many of its GPUs while it was rented."""
        lease = leases.c
        alike = (
            (_price.gpu == lease.gpu)
            & (_price.provider == lease.provider)
            & (_price.num_gpus == lease.num_gpus)
            & (_price.observed_at >= lease.intended_at)
            & or_(lease.gone_at.is_(None), _price.observed_at <= lease.gone_at)
        )
        lowest = select(lease.id, func.min(_price.on_demand_price, type_=_price.on_demand_price.type))
        lowest = lowest.join(price_observations, alike).group_by(lease.id)
        rows = await self._sql.fetch_all(
            lowest.where(lease.id.in_(concerned), lease.on_demand_price.is_(None), _price.on_demand_price.is_not(None))
        )
        return {lease_id: price for lease_id, price in rows}

    async def _ran(self, concerned: Any) -> dict[str, list[tuple[datetime, datetime | None]]]:
        ran = select(_span.lease_id, _span.started_at, _span.ended_at).where(_span.lease_id.in_(concerned))
        found: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        for lease_id, started_at, ended_at in await self._sql.fetch_all(
            ran.where(_span.status == InstanceStatus.RUNNING)
        ):
            found[lease_id].append((started_at, ended_at))
        return dict(found)

    async def _spans(self, concerned: Any) -> dict[str, list[Span]]:
        chosen = select(lease_spans).where(_span.lease_id.in_(concerned)).order_by(_span.lease_id, _span.seq)
        found: dict[str, list[Span]] = defaultdict(list)
        for row in await self._sql.fetch_all(chosen):
            found[row[0]].append(record_of(Span, lease_spans, row))
        return dict(found)


@cache
def _first_of_month(year: Any, month: Any) -> date:
    """Cached, because thousands of cells have few different months; databases number them by types of their own."""
    return date(int(year), int(month), 1)


def _within(since: date | None, before: date | None) -> list[ColumnElement[bool]]:
    bounds = []
    if since is not None:
        bounds.append(_sum.day >= since)
    if before is not None:
        bounds.append(_sum.day < before)
    return bounds
