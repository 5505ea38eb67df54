"""Spend reports: lines, their sum, and what the same hours would have cost elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import get_args

from autopilot.answers.money import Comparison, Spend, SpendOfMonth
from autopilot.answers.money import SpendRow as Line
from autopilot.books.owners import name_owners
from autopilot.books.periods import Period, period_of
from autopilot.domain.errors import UserError
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.spend import (
    TAG,
    Cell,
    LeaseFacts,
    SpendKey,
    SpendPart,
    SpendRow,
    SpendSource,
    report,
    sum_days_by_market,
    total_row,
)
from autopilot.domain.zones import window
from autopilot.engine.outstanding import Moment, Outstanding
from autopilot.planning.list_prices import ListPrice, cloud_price, hyperscaler_price
from autopilot.ports.store import UnitOfWork

SPEND_KEYS: tuple[SpendKey, ...] = get_args(SpendKey)


async def spend(uow: UnitOfWork, moment: Moment, query: Mapping[str, str], owner: int | None = None) -> Spend:
    """Spend of all jobs, or of that owner's. Raises ``UserError`` for an invalid key, month, day or zone."""
    by, period = _key_of(query), period_of(query)
    source = await _read_source(uow, moment, by, period)
    if owner is not None:
        source = _select(source, lambda lease: lease.owner == owner)
    rows = _report(source, by, period, moment.now)
    if by == "owner":
        names = await name_owners(uow, (int(row.key) for row in rows if row.key))
        rows = tuple(replace(row, name=names[int(row.key)] if row.key else None) for row in rows)
    return _summarise(source, by, period, moment.now, rows)


async def spend_of_month(
    uow: UnitOfWork, moment: Moment, by: str, month: str, most: int
) -> tuple[SpendOfMonth, dict[str, dict[date, Decimal]]]:
    """The answer of ``spend`` for a UTC month; and by market and day what was posted or has accrued.

    Of the rows it has the ``most`` dearest. Raises ``UserError`` as ``spend`` does.
    """
    query = {"by": by, "month": month}
    by, period = _key_of(query), period_of(query)
    source = await _read_source(uow, moment, by, period, per="day")
    days = sum_days_by_market(source, period.first, period.after)
    rows = sorted(_report(source, by, period, moment.now), key=lambda row: row.posted + row.accrued, reverse=True)
    shown, others = rows[:most], rows[most:]
    whole = replace(_summarise(source, by, period, moment.now, rows), rows=[_line(row) for row in shown])
    of_others = _line(total_row(others)) if others else None
    answer = SpendOfMonth(**vars(whole), others=of_others, others_count=len(others))
    return answer, {market: dict(sorted(spent.items())) for market, spent in sorted(days.items())}


def _select(source: SpendSource, is_meant: Callable[[LeaseFacts], bool]) -> SpendSource:
    here = {id_: lease for id_, lease in source.leases.items() if is_meant(lease)}
    return replace(
        source,
        leases=here,
        cells=[cell for cell in source.cells if cell.lease_id in here],
        accrued=[cell for cell in source.accrued if cell.lease_id in here],
        held=[cell for cell in source.held if cell.lease_id in here],
        ran={id_: ran for id_, ran in source.ran.items() if id_ in here},
    )


async def _read_source(
    uow: UnitOfWork, moment: Moment, by: str, period: Period, per: SpendPart | None = None
) -> SpendSource:
    """``per``: the time by which it is to be told apart, where that is shorter than the answer takes."""
    posted = await spend_source(uow, by, period, per)
    jobs = {job.id: job for job in moment.jobs}
    # Of machines whose bill is awaited and whose job is over, all but the newest have posted something.
    unknown = {each.lease.job_id for id_, each in moment.outstanding.items() if id_ not in posted.leases}
    for job_id in sorted(filter(None, unknown - jobs.keys())):
        if (job := await uow.jobs.find(job_id)) is not None:
            jobs[job_id] = job
    return _with_outstanding(posted, moment.outstanding, jobs, moment.now, period)


def _report(source: SpendSource, by: str, period: Period, now: datetime) -> tuple[SpendRow, ...]:
    return report(source, by, now=now, zone=period.zone, first=period.first, after=period.after)


def _summarise(source: SpendSource, by: str, period: Period, now: datetime, rows: Iterable[SpendRow]) -> Spend:
    total = total_row(rows)
    # Kinds have no hours of their own; the same spend by GPU has.
    compared = total if by != "kind" else total_row(_report(source, "gpu", period, now))
    return Spend(
        by=by,
        since=period.first,
        until=period.last,
        zone=period.zone_name,
        total_row=_line(compared if by == "kind" else total),
        comparisons=_comparisons(compared),
        currency="USD",
        rows=[_line(row) for row in rows],
    )


async def spend_source(uow: UnitOfWork, by: str, period: Period, per: SpendPart | None = None) -> SpendSource:
    in_zone = period.zone is not UTC
    since, before = window(period.zone, period.first, period.after)
    per = per or ("day" if in_zone or by == "day" else "month" if by == "month" else None)
    return await uow.reports.sum_spend(since, before, per=per, with_spans=in_zone, with_tags=by.startswith(TAG))


def _with_outstanding(
    source: SpendSource,
    outstanding: Mapping[str, Outstanding],
    jobs: Mapping[str, Job],
    now: datetime,
    period: Period,
) -> SpendSource:
    """With what is not posted yet, and what is reserved today. A report of other days shows neither."""
    leases = {id_: each.lease for id_, each in outstanding.items()}
    facts = {id_: _facts(lease, jobs.get(lease.job_id or "")) for id_, lease in leases.items()}
    ran = {
        id_: [(span.started_at, span.ended_at) for span in lease.spans if span.status is InstanceStatus.RUNNING]
        for id_, lease in leases.items()
    }
    today = now.astimezone(period.zone).date()
    cells = [
        Cell(id_, day, kind, amount)
        for id_, each in outstanding.items()
        for (kind, day), amount in each.accrued.items()
    ]
    held = [Cell(id_, today, part.kind, part.amount) for id_, each in outstanding.items() for part in each.held]
    return replace(
        source,
        leases=facts | dict(source.leases),
        ran=ran | dict(source.ran),
        spans={id_: lease.spans for id_, lease in leases.items()} | dict(source.spans),
        accrued=cells,
        held=held,
    )


def _facts(lease: Lease, job: Job | None) -> LeaseFacts:
    named = (lease.id, lease.job_id, None if job is None else job.spec.name, lease.provider, lease.instance_id)
    facts = LeaseFacts(*named, lease.gpu, lease.num_gpus, lease.on_demand_price)
    return facts if job is None else replace(facts, owner=job.owner, tags=job.spec.tags, array_id=job.array_id)


def _line(row: SpendRow) -> Line:
    return Line(
        key=row.key,
        name=row.name,
        **row.costs.by_column,
        posted=row.posted,
        accrued=row.accrued,
        held=row.held,
        instances=row.instances,
        running_s=row.running.total_seconds(),
        on_demand=row.on_demand,
        saved=row.saved,
    )


def _key_of(query: Mapping[str, str]) -> str:
    asked = query.get("by", "month")
    if asked not in SPEND_KEYS and not (asked.startswith(TAG) and asked != TAG):
        raise UserError(f"cannot group spend by {asked!r}", hint=f"one of: {', '.join(SPEND_KEYS)}, or {TAG}KEY")
    return asked


def _comparisons(total: SpendRow) -> list[Comparison]:
    """On demand, then by price lists; none if nothing is known of any GPU."""
    made = []
    if total.on_demand is not None:
        sources = ["on-demand prices of the same machines when they were rented, else the lowest seen at their market"]
        made.append(_comparison("on_demand", total.on_demand, total.compared, sources))
    for name, price_of in (("hyperscaler_list", hyperscaler_price), ("cloud_list", cloud_price)):
        if (compared := _by_list(name, total, price_of)) is not None:
            made.append(compared)
    return made


def _by_list(name: str, total: SpendRow, price_of: Callable[[str], ListPrice | None]) -> Comparison | None:
    cost, spent, sources = ZERO, ZERO, []
    for gpu, (gpu_hours, spent_on_it) in sorted(total.gpu_hours.items()):
        price = price_of(gpu)
        if price is None or gpu_hours == timedelta(0):
            continue
        cost, spent = cost + accrue(price.low, gpu_hours), spent + spent_on_it
        sources.append(price.source)
    return _comparison(name, cost, spent, sources) if sources else None


def _comparison(name: str, cost: Decimal, spent: Decimal, sources: list[str]) -> Comparison:
    share = (cost - spent) / cost if cost else None
    return Comparison(
        name=name,
        cost=cost,
        spent=spent,
        saved=cost - spent,
        saved_share=None if share is None else share.quantize(Decimal("0.0001")),
        sources=sources,
    )
