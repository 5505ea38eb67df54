"""Spend reports: what was spent by day, job, GPU and so on, and what the same hours would have cost on demand.

A report is made of the ledger's sums per lease, kind and UTC day. In another time zone a UTC day's sum is shared out
over the zone's days as the machine's own spans say when it was spent; what has no time of its own (traffic, fees,
corrections) goes with the hours that the machine ran. Shares add up to the sum to the nano-dollar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Literal, NamedTuple

from autopilot.domain.array import split_task
from autopilot.domain.cost_columns import COLUMN_OF, COST_NAMES, Costs
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease, Span
from autopilot.domain.money import ZERO, accrue, from_nano, to_nano
from autopilot.domain.task_shares import share_by_task
from autopilot.domain.time import MICROSECOND, start_of_day
from autopilot.domain.zones import DAY, local_days, local_months, midnight, share_out

SpendPart = Literal["day", "month"]
SpendKey = Literal["month", "day", "job", "label", "owner", "provider", "gpu", "kind", "instance"]
TAG = "tag:"
"""Before the key of a tag: spend can be grouped by each that job files give."""


_SPENT_FOR_SPOT = (CostKind.COMPUTE, CostKind.STORAGE_STOPPED)
"""On demand the hours would have cost another price, and no disk would have waited; all else would be the same."""


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """What a report needs to know of a lease."""

    id: str
    job_id: str | None
    label: str | None
    """The job's name: a label that jobs may share."""
    provider: str
    instance_id: str | None
    gpu: str
    num_gpus: int
    on_demand_price: Decimal | None
    """$/h on demand: of the same machine when it was rented, else the lowest that its market showed meanwhile."""
    owner: int | None = None
    """The job's; None: no job."""
    tags: tuple[tuple[str, str], ...] = ()
    """The job's, where they were asked for."""
    array_id: str | None = None
    """Only for a task; reports by job show the array."""


class Cell(NamedTuple):
    """The sum of what was posted for one lease and kind on one UTC day, or in the month that begins with it.

    ``day`` None: on all days of the period.
    """

    lease_id: str
    day: date | None
    kind: CostKind
    amount: Decimal


@dataclass(frozen=True, slots=True)
class SpendSource:
    leases: Mapping[str, LeaseFacts]
    cells: Sequence[Cell]
    ran: Mapping[str, Sequence[tuple[datetime, datetime | None]]]
    """By lease: from when to when it ran; None: it still does."""
    spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """By lease, where the cells are to be shared out over a zone's days."""
    accrued: Sequence[Cell] = ()
    """What has cost money and is not posted yet, by UTC day."""
    held: Sequence[Cell] = ()
    """What is held back at this moment, on the day that it is in the report's zone."""


def of_task(source: SpendSource, leases: Iterable[Lease], job_id: str) -> SpendSource:
    """The task's shares of the machines that other tasks used as well, of all that is posted: amounts, and hours in
    the same proportion. ``leases``: those of the source that several tasks have used. Its cells: by day.
    """
    shared = {lease.id: lease for lease in leases if lease.id in source.leases}  # of others nothing is posted yet
    cells = [cell for cell in source.cells if cell.lease_id not in shared]
    ran = {id_: stretches for id_, stretches in source.ran.items() if id_ not in shared}
    for lease in shared.values():
        amounts = {cell: cell.amount for cell in source.cells if cell.lease_id == lease.id}
        own = share_by_task(lease, amounts).get(job_id, {})
        cells += [cell._replace(amount=amount) for cell, amount in own.items()]
        stretches = []
        for started_at, ended_at in source.ran.get(lease.id, ()):
            whole = {"": from_nano(max((ended_at or lease.observed_at) - started_at, timedelta(0)) // MICROSECOND)}
            part = share_by_task(lease, whole).get(job_id, {}).get("", ZERO)
            stretches.append((started_at, started_at + to_nano(part) * MICROSECOND))
        ran[lease.id] = stretches
    return replace(source, cells=cells, ran=ran)


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One line of a report: what is posted, by what it was for, and beside it what is accrued and held back."""

    key: str
    costs: Costs
    accrued: Decimal = ZERO
    held: Decimal = ZERO
    leases: frozenset[str] = frozenset()
    name: str | None = None
    """The job's, where lines are jobs."""
    running: timedelta = timedelta(0)
    on_demand: Decimal | None = None
    """What the running hours would have cost on demand, as far as prices are known; None: not known at all."""
    compared: Decimal = ZERO
    """What was spent, in place of ``on_demand``, on computing and on keeping disks of paused machines."""
    gpu_hours: Mapping[str, tuple[timedelta, Decimal]] = field(default_factory=dict)
    """By GPU: hours times GPUs, and what was spent on them (as in ``compared``)."""

    @property
    def instances(self) -> int:
        return len(self.leases)

    @property
    def posted(self) -> Decimal:
        return self.costs.total

    @property
    def saved(self) -> Decimal | None:
        return None if self.on_demand is None else self.on_demand - self.compared


def total_row(rows: Iterable[SpendRow]) -> SpendRow:
    """The sum of all rows."""
    made = _Sum()
    for row in rows:
        made.add_row(row)
    return made.row("total", None)


def report(
    source: SpendSource,
    by: str,
    *,
    now: datetime,
    zone: tzinfo = UTC,
    first: date | None = None,
    after: date | None = None,
) -> tuple[SpendRow, ...]:
    """Lines ordered by key, over the zone's days from ``first`` up to but without ``after``.

    ``by``: a ``SpendKey``, or ``tag:`` and the key of a tag.
    What lies outside the period in another zone than UTC is left out: ``zones.window`` says which cells it takes.
    """
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for cell in source.cells:
        lease = source.leases[cell.lease_id]
        if zone is UTC:
            sums[_key(by, lease, cell.kind, cell.day)].add(lease, cell.kind, cell.amount)
            continue
        for day, amount in _in_period(cell, source, now, zone, first, after):
            sums[_key(by, lease, cell.kind, day)].add(lease, cell.kind, amount)
    for cell in source.accrued:
        lease = source.leases[cell.lease_id]
        for day, amount in _in_period(cell, source, now, zone, first, after):
            sums[_key(by, lease, cell.kind, day)].add_accrued(lease, amount)
    for cell in source.held:
        lease = source.leases[cell.lease_id]
        if _is_within(cell.day, first, after):
            sums[_key(by, lease, cell.kind, cell.day)].add_held(lease, cell.amount)
    if by != "kind":
        _add_hours(sums, source, by, now, zone, first, after)
    return tuple(sums[key].row(key, by) for key in sorted(sums))


def sum_days_by_market(source: SpendSource, first: date | None, after: date | None) -> dict[str, dict[date, Decimal]]:
    """By market and UTC day: dollars posted, and accrued since. Of a source that is told apart by the day."""
    sums: dict[str, dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for cell in (*source.cells, *source.accrued):
        if cell.day is not None and _is_within(cell.day, first, after):
            sums[source.leases[cell.lease_id].provider][cell.day] += cell.amount
    return sums


def _in_period(
    cell: Cell, source: SpendSource, now: datetime, zone: tzinfo, first: date | None, after: date | None
) -> Iterator[tuple[date | None, Decimal]]:
    """What of the cell belongs to which of the zone's days, as far as the report is about them."""
    days: Sequence[tuple[date | None, Decimal]] = [(cell.day, cell.amount)]
    if zone is not UTC and cell.day is not None:
        days = _by_local_day(cell, cell.day, source.spans.get(cell.lease_id, ()), zone, now)
    return ((day, amount) for day, amount in days if _is_within(day, first, after))


def _is_within(day: date | None, first: date | None, after: date | None) -> bool:
    return day is None or ((first is None or day >= first) and (after is None or day < after))


class _Sum:
    """A line in the making."""

    def __init__(self) -> None:
        self.costs: dict[str, Decimal] = dict.fromkeys(COST_NAMES, ZERO)
        self.accrued = ZERO
        self.held = ZERO
        self.leases: set[str] = set()
        self.name: str | None = None
        self.running = timedelta(0)
        self.on_demand: Decimal | None = None
        self.compared = ZERO
        self.gpu_hours: dict[str, tuple[timedelta, Decimal]] = {}

    def add(self, lease: LeaseFacts, kind: CostKind, amount: Decimal) -> None:
        self.costs[COLUMN_OF[kind]] += amount
        self._count(lease)
        if kind in _SPENT_FOR_SPOT:
            hours, spent = self.gpu_hours.get(lease.gpu, (timedelta(0), ZERO))
            self.gpu_hours[lease.gpu] = hours, spent + amount
            if lease.on_demand_price is not None:
                self.compared += amount

    def add_accrued(self, lease: LeaseFacts, amount: Decimal) -> None:
        self.accrued += amount
        self._count(lease)

    def add_held(self, lease: LeaseFacts, amount: Decimal) -> None:
        self.held += amount
        self._count(lease)

    def _count(self, lease: LeaseFacts) -> None:
        self.leases.add(lease.id)
        self.name = _name_of_whole(lease)

    def add_hours(self, lease: LeaseFacts, ran: timedelta) -> None:
        self.running += ran
        hours, spent = self.gpu_hours.get(lease.gpu, (timedelta(0), ZERO))
        self.gpu_hours[lease.gpu] = hours + ran * lease.num_gpus, spent
        if lease.on_demand_price is not None:
            self.on_demand = (self.on_demand or ZERO) + accrue(lease.on_demand_price, ran)

    def add_row(self, row: SpendRow) -> None:
        for name, amount in row.costs.by_column.items():
            self.costs[name] += amount
        self.accrued += row.accrued
        self.held += row.held
        self.leases |= row.leases
        self.running += row.running
        self.compared += row.compared
        if row.on_demand is not None:
            self.on_demand = (self.on_demand or ZERO) + row.on_demand
        for gpu, (hours, spent) in row.gpu_hours.items():
            before = self.gpu_hours.get(gpu, (timedelta(0), ZERO))
            self.gpu_hours[gpu] = before[0] + hours, before[1] + spent

    def row(self, key: str, by: str | None) -> SpendRow:
        return SpendRow(
            key=key,
            costs=Costs(**self.costs),
            accrued=self.accrued,
            held=self.held,
            leases=frozenset(self.leases),
            name=self.name if by == "job" else None,
            running=self.running,
            on_demand=self.on_demand,
            compared=self.compared,
            gpu_hours=self.gpu_hours,
        )


def _add_hours(
    sums: Mapping[str, _Sum],
    source: SpendSource,
    by: str,
    now: datetime,
    zone: tzinfo,
    first: date | None,
    after: date | None,
) -> None:
    begin = None if first is None else midnight(first, zone)
    finish = now if after is None else min(now, midnight(after, zone))
    parts = {"day": local_days, "month": local_months}.get(by)
    for lease_id, stretches in source.ran.items():
        lease = source.leases[lease_id]
        hours: dict[date | None, timedelta] = defaultdict(timedelta)
        for started_at, ended_at in stretches:
            start = started_at if begin is None else max(started_at, begin)
            end = finish if ended_at is None else min(ended_at, finish)
            if parts is None:
                hours[None] += max(end - start, timedelta(0))
                continue
            for first_day, since, until in parts(start, end, zone):
                hours[first_day] += until - since
        for each, ran in hours.items():
            line = sums.get(_key(by, lease, CostKind.COMPUTE, each))
            if line is not None:  # hours that have cost nothing yet have no line to stand in
                line.add_hours(lease, ran)


def _by_local_day(
    cell: Cell, utc_day: date, spans: Sequence[Span], zone: tzinfo, now: datetime
) -> Sequence[tuple[date, Decimal]]:
    start = start_of_day(utc_day)
    parts = list(local_days(start, start + DAY, zone))
    weights = [_weight(spans, cell.kind, since, until, now) for _, since, until in parts]
    if not any(weights):
        weights = [_weight(spans, None, since, until, now) for _, since, until in parts]
    if not any(weights):
        weights = [(until - since) // MICROSECOND for _, since, until in parts]
    shares = zip(parts, share_out(cell.amount, weights), strict=True)
    return [(day, share) for (day, _, _), share in shares if share]


def _weight(spans: Sequence[Span], kind: CostKind | None, since: datetime, until: datetime, now: datetime) -> int:
    """What the spans cost of ``kind`` in that time, in nano-dollar-microseconds; else how long they ran."""
    weight = 0
    for span in spans:
        overlap = min(until, span.ended_at or now) - max(since, span.started_at)
        if overlap <= timedelta(0):
            continue
        if kind is CostKind.COMPUTE:
            factor = to_nano(span.billed_rate)
        elif kind is not None and kind.is_storage:
            is_stopped = span.status is InstanceStatus.STOPPED
            factor = to_nano(span.storage_rate) if is_stopped is (kind is CostKind.STORAGE_STOPPED) else 0
        else:
            factor = int(span.status is InstanceStatus.RUNNING)
        weight += factor * (overlap // MICROSECOND)
    return weight


def _name_of_whole(lease: LeaseFacts) -> str | None:
    """A task's name is that of its array and its number."""
    return lease.label if lease.array_id is None or lease.label is None else split_task(lease.label)[0]


def _key(by: str, lease: LeaseFacts, kind: CostKind, day: date | None) -> str:
    match by:
        case "month":
            return "" if day is None else day.isoformat()[:7]
        case "day":
            return "" if day is None else day.isoformat()
        case "job":
            return lease.array_id or lease.job_id or ""
        case "label":
            return _name_of_whole(lease) or ""
        case "owner":
            return "" if lease.owner is None else str(lease.owner)
        case "provider":
            return lease.provider
        case "gpu":
            return lease.gpu
        case "kind":
            return kind.value
        case "instance":
            return lease.instance_id or lease.id
        case _:
            return dict(lease.tags).get(by.removeprefix(TAG), "")
