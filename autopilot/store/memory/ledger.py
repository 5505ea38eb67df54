"""The append-only ledger in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import LedgerEntry
from autopilot.domain.money import ZERO
from autopilot.ports.store import Totals
from autopilot.store.memory.queries import Queries


class LedgerQueries(Queries):
    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        with self._writing() as tables:
            return sum([tables.add_entry(entry) for entry in entries])

    async def entries_of(self, lease_id: str) -> tuple[LedgerEntry, ...]:
        tables = self._reading()
        found = (tables.entries.get(id) for id in tables.entries_by_lease.get(lease_id) or ())
        return tuple(sorted(filter(None, found), key=lambda entry: (entry.posted_at, entry.id)))

    async def posted(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        tables = self._reading()
        return {lease_id: dict(tables.posted.get(lease_id) or {}) for lease_id in lease_ids}

    async def totals(self, day: date) -> Totals:
        tables = self._reading()
        first, after = _month_of(day)
        month = sum((tables.spent_on.get(each) or ZERO for each in tables.spent_on if first <= each < after), ZERO)
        return Totals(day=tables.spent_on.get(day) or ZERO, month=month)


def _month_of(day: date) -> tuple[date, date]:
    """The first day of the month and of the next one."""
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
