"""What reconciliation reads and keeps, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.ledger import SPEND_TYPES, EntryType, InvoiceLine, LeaseBooks
from autopilot.domain.money import ZERO
from autopilot.domain.reconciliation import ReconciliationRow, compare_books
from autopilot.domain.time import month_bounds
from autopilot.store.memory.queries import Queries


class InvoiceQueries(Queries):
    async def books_of(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        tables = self._reading()
        return {lease_id: tables.books.get(lease_id) or LeaseBooks() for lease_id in lease_ids}

    async def add_invoice_lines(self, lines: Iterable[InvoiceLine]) -> None:
        with self._writing() as tables:
            for line in lines:
                tables.add_invoice_line(line)

    async def invoice_lines_of(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        tables = self._reading()
        ids = (line_id for lease_id in lease_ids for line_id in tables.lines_by_lease.get(lease_id) or ())
        found = filter(None, map(tables.invoice_lines.get, ids))
        return tuple(sorted(found, key=lambda line: (line.lease_id, line.day, line.kind, line.revision)))

    async def leases_to_reconcile(self, gone_since: datetime) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._reading().leases.values()
            if lease.instance_id is not None and _is_concerned(lease, gone_since)
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))

    async def unresolved_leases(self, intended_since: datetime) -> tuple[Lease, ...]:
        found = [
            lease
            for lease in self._reading().leases.values()
            if lease.state is LeaseState.ABANDONED
            and lease.instance_id is None
            and lease.create_unknown
            and lease.intended_at >= intended_since
        ]
        return tuple(sorted(found, key=lambda lease: (lease.intended_at, lease.id)))

    async def reconciliation(self, month: str) -> tuple[ReconciliationRow, ...]:
        tables = self._reading()
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


def _is_concerned(lease: Lease, gone_since: datetime) -> bool:
    if lease.state is LeaseState.GONE:
        return lease.ending.gone_at is not None and lease.ending.gone_at >= gone_since
    return not lease.is_over
