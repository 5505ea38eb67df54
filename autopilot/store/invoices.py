"""What reconciliation reads and keeps: sums per lease, the market's own lines, and how the two compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from sqlalchemy import func, select

from autopilot.domain.ledger import RESERVE_TYPES, SPEND_TYPES, EntryType, InvoiceLine, KindAndDay, LeaseBooks
from autopilot.domain.money import ZERO
from autopilot.domain.reconciliation import ReconciliationRow, compare_books
from autopilot.domain.time import month_bounds
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import invoice_lines, leases, ledger_entries
from autopilot.store.statements import Statements

_entry = ledger_entries.c
_line = invoice_lines.c
_key = (_entry.lease_id, _entry.type, _entry.kind, _entry.day)


class InvoiceStatements(Statements):
    async def books_of(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        accrued: dict[str, dict[KindAndDay, Decimal]] = {lease_id: {} for lease_id in lease_ids}
        reserved = dict.fromkeys(lease_ids, (ZERO, 0))
        sums = select(*_key, func.sum(_entry.amount), func.count()).group_by(*_key)
        sums = sums.where(_entry.lease_id.in_(lease_ids), _entry.type.in_((EntryType.ACCRUE, *RESERVE_TYPES)))
        for lease_id, type_, kind, day, amount, rows in await self._all(sums):
            if type_ is EntryType.ACCRUE:
                accrued[lease_id][kind, day] = amount
            else:
                before, count = reserved[lease_id]
                reserved[lease_id] = before + amount, count + rows
        return {lease_id: LeaseBooks(accrued[lease_id], *reserved[lease_id]) for lease_id in lease_ids}

    async def add_invoice_lines(self, lines: Iterable[InvoiceLine]) -> None:
        await self._append(invoice_lines, [values_of(invoice_lines, line) for line in lines])

    async def invoice_lines_of(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        chosen = select(invoice_lines).where(_line.lease_id.in_(lease_ids))
        rows = await self._all(chosen.order_by(_line.lease_id, _line.day, _line.kind, _line.revision))
        return tuple(record_of(InvoiceLine, invoice_lines, row) for row in rows)

    async def reconciliation(self, month: str) -> tuple[ReconciliationRow, ...]:
        first, after = month_bounds(month)
        sums = select(*_key, func.sum(_entry.amount)).group_by(*_key)
        spend = await self._all(sums.where(_entry.day >= first, _entry.day < after, _entry.type.in_(SPEND_TYPES)))
        in_month = select(invoice_lines).where(_line.day >= first, _line.day < after)
        lines = [record_of(InvoiceLine, invoice_lines, row) for row in await self._all(in_month)]
        facts = (leases.c.id, leases.c.provider, leases.c.instance_id, leases.c.job_id, leases.c.gpu)
        concerned = {row[0] for row in spend} | {line.lease_id for line in lines}
        chosen = select(*facts).where(leases.c.id.in_(concerned)).order_by(leases.c.intended_at, leases.c.id)
        found = await self._all(chosen)
        return compare_books(
            [(row[0], row[1], row[2], row[3], row[4]) for row in found],
            [(row[0], row[1], row[2], row[3], row[4]) for row in spend],
            lines,
        )
