"""The market's own lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import select

from autopilot.domain.ledger import InvoiceLine
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import invoice_lines
from autopilot.store.statements import SqlRepository

_line = invoice_lines.c


class SqlInvoices(SqlRepository):
    __slots__ = ()

    async def add(self, lines: Iterable[InvoiceLine]) -> None:
        await self._sql.append(invoice_lines, [values_of(invoice_lines, line) for line in lines])

    async def list_by_lease(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        chosen = select(invoice_lines).where(_line.lease_id.in_(lease_ids))
        rows = await self._sql.fetch_all(chosen.order_by(_line.lease_id, _line.day, _line.kind, _line.revision))
        return tuple(record_of(InvoiceLine, invoice_lines, row) for row in rows)
