"""The receipt of a job: its cost line by line, how far the markets' bills confirm it, and what interruptions cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from autopilot.answers.money import ItemizedReceipt, Receipt, ReceiptJob, ReceiptLine, ReceiptMachine
from autopilot.books.bills import waits_for
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, time_running
from autopilot.domain.money import ZERO
from autopilot.domain.reconciliation import newest_revisions
from autopilot.domain.spend import Cell, SpendRow, SpendSource, report, total_row
from autopilot.ports.store import EventRecord, UnitOfWork

BEGINNING = "job.submitted"
STOPS = ("lease.paused", "lease.offline", "lease.gone")
RUNS = ("lease.running", "lease.resumed", "lease.promoted")

BillState = Literal["complete", "awaited", "unconfirmed", "none"]
"""Of all machines of a job: ``unconfirmed``: nothing more is awaited, and a market has billed nothing for one that
cost something; ``none``: no machine cost anything."""


class Billed(NamedTuple):
    """One machine of the job beside its bill."""

    lease: Lease
    posted: Decimal
    """By the ledger: the job's share where several tasks used the machine."""
    invoiced: Decimal | None
    """By the market, of the whole machine; None: no line yet."""

    @property
    def waits_for(self) -> str | None:
        """What the bill still lacks; None: nothing more is awaited."""
        return None if self.lease.billing.settled_at is not None else waits_for(self.lease)

    @property
    def state(self) -> BillState:
        if self.waits_for is not None:
            return "awaited"
        return "complete" if self.invoiced is not None or not self.posted else "unconfirmed"


async def summarise(uow: UnitOfWork, job: Job, now: datetime, events: Sequence[EventRecord]) -> Receipt | None:
    """The receipt without its lines; None for a job that is not over."""
    if not job.status.is_final:
        return None
    source = await uow.reports.sum_spend(job_id=job.id, per="day")
    return _summarise(job, _total(source, now), await _read_bills(uow, job, source), events)


async def read_receipt(uow: UnitOfWork, job: Job, now: datetime) -> ItemizedReceipt:
    """What the job has cost, also while it runs: by machine, and by machine, UTC day and kind of cost."""
    source = await uow.reports.sum_spend(job_id=job.id, per="day")
    bills = await _read_bills(uow, job, source)
    leases = {each.lease.id: each.lease for each in bills}
    order = {lease_id: number for number, lease_id in enumerate(leases)}
    cells = sorted(source.cells, key=lambda cell: (order[cell.lease_id], str(cell.day), cell.kind))
    summary = _summarise(job, _total(source, now), bills, await uow.events.list_by_job(job.id))
    return ItemizedReceipt(
        job=ReceiptJob(
            id=job.id,
            name=job.spec.name,
            status=job.status,
            exit_code=job.exit_code,
            submitted_at=job.submitted_at,
            finished_at=job.finished_at,
        ),
        **vars(summary),
        machines=[_machine(each, now) for each in bills],
        lines=[_line(cell, leases[cell.lease_id]) for cell in cells],
        currency="USD",
    )


def _line(cell: Cell, lease: Lease) -> ReceiptLine:
    return ReceiptLine(
        lease_id=cell.lease_id,
        provider=lease.provider,
        instance_id=lease.instance_id,
        day=cell.day,
        kind=cell.kind,
        amount=cell.amount,
    )


def _total(source: SpendSource, now: datetime) -> SpendRow:
    return total_row(report(source, "job", now=now))


def _summarise(job: Job, total: SpendRow, bills: Sequence[Billed], events: Sequence[EventRecord]) -> Receipt:
    lost = [Decimal(str(dict(event.fields)["seconds"])) for event in events if event.name == "work.lost"]
    # An array's interruptions are its tasks'. Events are deleted some time after a job has ended, the oldest first.
    is_told = bool(events) and events[0].name == BEGINNING and not job.is_array
    return Receipt(
        posted=total.posted,
        **total.costs.by_column,
        bill=_state(bills),
        on_demand=total.on_demand,
        saved=total.saved,
        is_shared=any(each.lease.is_shared for each in bills) and not job.is_array,
        interruptions=count_interruptions(events) if is_told else None,
        work_lost_s=float(sum(lost)) if is_told else None,
    )


def _state(bills: Sequence[Billed]) -> BillState:
    states = {each.state for each in bills if each.posted or each.waits_for is not None}
    worst: tuple[BillState, ...] = ("awaited", "unconfirmed", "complete")
    return next((state for state in worst if state in states), "none")


def count_interruptions(events: Sequence[EventRecord]) -> int:
    """How often a machine that ran the job stopped, other than because the daemon released it or told it to stop."""
    running: set[str] = set()
    released: set[str] = set()
    count = 0
    for event in events:
        lease_id = event.lease_id or ""
        if event.name in RUNS:
            running.add(lease_id)
        elif event.name in ("lease.release_requested", "run.stop_ordered"):
            released.add(lease_id)
        elif event.name in STOPS and lease_id in running:
            running.discard(lease_id)
            count += lease_id not in released
    return count


async def _read_bills(uow: UnitOfWork, job: Job, source: SpendSource) -> list[Billed]:
    posted: dict[str, Decimal] = defaultdict(Decimal)
    for cell in source.cells:
        posted[cell.lease_id] += cell.amount
    rented = {lease.id: lease for lease in await uow.leases.list_by_job(job.id) if lease.instance_id is not None}
    paid = [await uow.leases.get(lease_id) for lease_id in source.leases if lease_id not in rented]
    found = [*rented.values(), *(lease for lease in paid if lease is not None)]
    invoiced: dict[str, Decimal] = {}
    lines = await uow.invoices.list_by_lease([lease.id for lease in found])
    for line in newest_revisions(lines).values():
        invoiced[line.lease_id] = invoiced.get(line.lease_id, ZERO) + line.amount
    found.sort(key=lambda lease: (lease.intended_at, lease.id))
    return [Billed(lease, posted[lease.id], invoiced.get(lease.id)) for lease in found]


def _machine(billed: Billed, now: datetime) -> ReceiptMachine:
    lease = billed.lease
    return ReceiptMachine(
        lease_id=lease.id,
        provider=lease.provider,
        instance_id=lease.instance_id,
        gpu=lease.gpu,
        num_gpus=lease.num_gpus,
        capacity_type=lease.capacity_type,
        running_s=time_running(lease, now).total_seconds(),
        posted=billed.posted,
        invoiced=billed.invoiced,
        waits_for=billed.waits_for,
    )
