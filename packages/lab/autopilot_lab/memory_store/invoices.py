"""The market's own lines, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autopilot.domain.ledger import InvoiceLine
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryInvoices(MemoryRepository):
    __slots__ = ()

    async def add(self, lines: Iterable[InvoiceLine]) -> None:
        with self._access.write() as tables:
            for line in lines:
                tables.add_invoice_line(line)

    async def list_by_lease(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        tables = self._access.read()
        ids = (line_id for lease_id in lease_ids for line_id in tables.lines_by_lease.get(lease_id) or ())
        found = filter(None, map(tables.invoice_lines.get, ids))
        return tuple(sorted(found, key=lambda line: (line.lease_id, line.day, line.kind, line.revision)))
