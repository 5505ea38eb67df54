"""The ledger against the markets' bills, and the whole life of one instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal

from autopilot import render
from autopilot.answers.money import Amounts, ReconciledLease, Reconciliation, ReconciliationOfDearest
from autopilot.books.bills import waits_for
from autopilot.books.finding import JobNotFound
from autopilot.books.job_life import list_spans
from autopilot.domain.lease import BillWait, Lease, time_running
from autopilot.domain.ledger import InvoiceLine, LedgerEntry
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reconciliation import ReconciliationRow
from autopilot.domain.time import utc_day
from autopilot.engine.invoices import LOOKS_APART
from autopilot.engine.outstanding import Moment, Outstanding, money, read_moment
from autopilot.ports.store import UnitOfWork

READINGS_PER_ANSWER = 288
"""The newest readings of one machine: those of a day."""


async def reconciliation(uow: UnitOfWork, moment: Moment, month: str | None = None) -> Reconciliation:
    """Our figures beside the market's, instance by instance, in a UTC month; None: this one. Raises ``UserError``."""
    month = month or f"{utc_day(moment.now):%Y-%m}"
    return _summarise(await _read_rows(uow, moment, month), month)


async def reconciliation_of_dearest(uow: UnitOfWork, moment: Moment, month: str, most: int) -> ReconciliationOfDearest:
    """The same with the ``most`` dearest rows. Raises ``UserError``."""
    rows = sorted(await _read_rows(uow, moment, month), key=lambda row: row.posted, reverse=True)
    whole, others = replace(_summarise(rows, month), rows=rows[:most]), rows[most:]
    return ReconciliationOfDearest(**vars(whole), others=_sum(others) if others else None, others_count=len(others))


async def _read_rows(uow: UnitOfWork, moment: Moment, month: str) -> list[ReconciledLease]:
    rows, is_now = await uow.reports.reconcile(month), month == f"{utc_day(moment.now):%Y-%m}"
    return [_compare(row, moment.outstanding.get(row.lease_id), month, is_now=is_now) for row in rows]


def _summarise(rows: list[ReconciledLease], month: str) -> Reconciliation:
    missing = sum(row.invoiced is None for row in rows)
    return Reconciliation(month=month, total=_sum(rows), not_invoiced=missing, currency="USD", rows=rows)


def _sum(rows: Sequence[Amounts]) -> Amounts:
    return Amounts(
        **{each.name: sum((getattr(row, each.name) or ZERO for row in rows), ZERO) for each in fields(Amounts)}
    )


def _compare(row: ReconciliationRow, outstanding: Outstanding | None, month: str, *, is_now: bool) -> ReconciledLease:
    accrued, held, lacks, again = ZERO, ZERO, None, None
    if outstanding is not None:
        days, looked = outstanding.accrued.items(), outstanding.lease.billing.reconciled_at
        accrued = sum((amount for (_, day), amount in days if f"{day:%Y-%m}" == month), ZERO)
        held = outstanding.held_total if is_now else ZERO
        lacks = waits_for(outstanding.lease)
        again = looked + LOOKS_APART if looked is not None and lacks is BillWait.SECOND_LOOK else None
    return ReconciledLease(
        provider=row.provider,
        instance_id=row.instance_id,
        lease_id=row.lease_id,
        job_id=row.job_id,
        gpu=row.gpu,
        waits_for=lacks,
        second_look_at=again,
        estimate=row.estimate,
        corrected=row.posted - row.estimate,
        posted=row.posted,
        invoiced=row.invoiced,
        not_billed=row.posted - (row.invoiced or ZERO),
        accrued=accrued,
        held=held,
    )


async def instance(uow: UnitOfWork, reference: str, now: datetime, params: Params) -> render.Json:
    """Every lease of that id, instance id or label, newest first, each with its whole life. Raises ``JobNotFound``."""
    found = await uow.leases.search(reference)
    if not found:
        raise JobNotFound(f"no instance {reference!r}", hint="autopilot spend --by instance lists all that were paid")
    outstanding = (await read_moment(uow, now, params)).outstanding
    return {"instances": [await _life(uow, lease, outstanding.get(lease.id), now) for lease in found]}


async def _life(uow: UnitOfWork, lease: Lease, outstanding: Outstanding | None, now: datetime) -> render.Json:
    job = None if lease.job_id is None else await uow.jobs.find(lease.job_id)
    entries = await uow.ledger.list_entries(lease.id)
    lines = await uow.invoices.list_by_lease([lease.id])
    running = time_running(lease, now)
    return {
        "lease": render.lease(lease)
        | render.amounts(money(_sum_posted(entries), [] if outstanding is None else [outstanding]))
        | {
            "job_id": lease.job_id,
            "job": None if job is None else job.spec.name,
            "host_id": lease.host_id,
            "disk_gb": render.plain(lease.disk_gb),
            "decision_id": lease.decision_id,
            "acquired_at": render.plain(lease.acquired_at),
            "not_after": render.plain(lease.not_after),
            "destroy_requested_at": render.plain(lease.ending.requested_at),
            "destroy_sent_at": render.plain(lease.ending.sent_at),
            "running_s": render.plain(running),
            "waits_for": None if outstanding is None else waits_for(lease),
        },
        "spans": list_spans(lease),
        "bids": [render.bid(record) for record in await uow.bids.list_by_lease(lease.id)],
        "entries": [_entry(entry) for entry in entries],
        "invoice_lines": [_line(line) for line in lines],
        "events": [render.event(record) for record in await uow.events.list_by_lease(lease.id)],
        "readings": [
            render.reading(each)
            for each in await uow.machine_readings.list_by_lease(lease.id, limit=READINGS_PER_ANSWER)
        ],
    }


def _sum_posted(entries: tuple[LedgerEntry, ...]) -> Decimal:
    return sum((entry.amount for entry in entries if entry.is_spend), ZERO)


def _entry(entry: LedgerEntry) -> render.Json:
    return {
        "id": entry.id,
        "type": entry.type,
        "kind": entry.kind,
        "day": entry.day.isoformat(),
        "amount": render.plain(entry.amount),
        "posted_at": render.plain(entry.posted_at),
        "corrects": entry.corrects,
        "line_id": entry.line_id,
    }


def _line(line: InvoiceLine) -> render.Json:
    return {
        "id": line.id,
        "kind": line.kind,
        "day": line.day.isoformat(),
        "amount": render.plain(line.amount),
        "revision": line.revision,
        "seen_at": render.plain(line.seen_at),
    }
