"""The ledger against the markets' bills, and the whole life of one instance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from autopilot.api import render
from autopilot.api.jobs import JobNotFound
from autopilot.domain.lease import Lease, time_running
from autopilot.domain.ledger import InvoiceLine, LedgerEntry
from autopilot.domain.money import ZERO
from autopilot.domain.time import utc_day
from autopilot.ports.store import Store, UnitOfWork


async def reconciliation(store: Store, query: Mapping[str, str], now: datetime) -> render.Json:
    """Estimate, posted, invoiced and drift per instance in a UTC month. Raises ``UserError``."""
    month = query.get("month") or f"{utc_day(now):%Y-%m}"
    async with store.snapshot() as uow:
        rows = await uow.reports.reconcile(month)
    invoiced = [row for row in rows if row.invoiced is not None]
    sums = {
        "estimate": sum((row.estimate for row in rows), ZERO),
        "posted": sum((row.posted for row in rows), ZERO),
        "invoiced": sum((row.invoiced or ZERO for row in invoiced), ZERO),
        "drift": sum((row.drift or ZERO for row in invoiced), ZERO),
    }
    return {
        "month": month,
        "rows": [
            {
                "provider": row.provider,
                "instance_id": row.instance_id,
                "lease_id": row.lease_id,
                "job_id": row.job_id,
                "gpu": row.gpu,
                "estimate": render.plain(row.estimate),
                "posted": render.plain(row.posted),
                "invoiced": render.plain(row.invoiced),
                "drift": render.plain(row.drift),
            }
            for row in rows
        ],
        "total": {name: render.plain(amount) for name, amount in sums.items()},
        "not_invoiced": len(rows) - len(invoiced),
        "currency": "USD",
    }


async def instance(store: Store, reference: str, now: datetime) -> render.Json:
    """Every lease of that id, instance id or label, newest first, each with its whole life. Raises ``JobNotFound``."""
    async with store.snapshot() as uow:
        found = await uow.leases.search(reference)
        if not found:
            raise JobNotFound(
                f"no instance {reference!r}", hint="autopilot spend --by instance lists all that were paid"
            )
        return {"instances": [await _life(uow, lease, now) for lease in found]}


async def _life(uow: UnitOfWork, lease: Lease, now: datetime) -> render.Json:
    job = None if lease.job_id is None else await uow.jobs.find(lease.job_id)
    entries = await uow.ledger.list_entries(lease.id)
    lines = await uow.invoices.list_by_lease([lease.id])
    running = time_running(lease, now)
    return {
        "lease": render.lease(lease, now)
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
            "posted": render.plain(_sum_posted(entries)),
        },
        "spans": [
            {
                "status": span.status,
                "billed_rate": render.plain(span.billed_rate),
                "storage_rate": render.plain(span.storage_rate),
                "started_at": render.plain(span.started_at),
                "ended_at": render.plain(span.ended_at),
            }
            for span in lease.spans
        ],
        "bids": [render.bid(record) for record in await uow.bids.list_by_lease(lease.id)],
        "entries": [_entry(entry) for entry in entries],
        "invoice_lines": [_line(line) for line in lines],
        "events": [render.event(record) for record in await uow.events.list_by_lease(lease.id)],
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
