"""The append-only ledger: posting, and the sums over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import case, func, select

from autopilot.domain.errors import UserError
from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import SPEND_TYPES, LedgerEntry, SpendRow
from autopilot.domain.money import ZERO
from autopilot.ports.store import SpendKey, Totals
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import leases, ledger_entries
from autopilot.store.statements import Statements

_entry = ledger_entries.c
_is_spend = _entry.type.in_(SPEND_TYPES)
_total = func.coalesce(func.sum(_entry.amount), ZERO, type_=_entry.amount.type)

_KEYS: dict[SpendKey, Callable[[Any], str]] = {
    "month": lambda row: f"{row.day:%Y-%m}",
    "day": lambda row: row.day.isoformat(),
    "job": lambda row: row.job_id or "",
    "provider": lambda row: str(row.provider),
    "gpu": lambda row: str(row.gpu),
    "kind": lambda row: str(row.kind),
    "instance": lambda row: row.instance_id or row.lease_id,
}


class LedgerStatements(Statements):
    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        return await self._append(ledger_entries, [values_of(ledger_entries, entry) for entry in entries])

    async def entries_of(self, lease_id: str) -> tuple[LedgerEntry, ...]:
        chosen = select(ledger_entries).where(_entry.lease_id == lease_id).order_by(_entry.posted_at, _entry.id)
        return tuple(record_of(LedgerEntry, ledger_entries, row) for row in await self._all(chosen))

    async def posted(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        """Every lease asked for has its mapping, empty where nothing is posted."""
        sums: dict[str, dict[tuple[CostKind, date], Decimal]] = {lease_id: {} for lease_id in lease_ids}
        key = (_entry.lease_id, _entry.kind, _entry.day)
        chosen = select(*key, func.sum(_entry.amount)).where(_entry.lease_id.in_(lease_ids), _is_spend).group_by(*key)
        for lease_id, kind, day, amount in await self._all(chosen):
            sums[lease_id][kind, day] = amount
        return sums

    async def totals(self, day: date) -> Totals:
        first, after = _month_of(day)
        on_day = case((_entry.day == day, _entry.amount), else_=ZERO)
        sums = select(func.coalesce(func.sum(on_day), ZERO, type_=_entry.amount.type), _total)
        (row,) = await self._all(sums.where(_entry.day >= first, _entry.day < after, _is_spend))
        return Totals(day=row[0], month=row[1])

    async def spend(self, by: SpendKey, *, month: str | None = None, job_id: str | None = None) -> tuple[SpendRow, ...]:
        """Keys: "YYYY-MM", "YYYY-MM-DD", job id ("" without a job), names, the instance's id (else the lease's).

        Raises ``UserError`` when ``month`` is not of the form "YYYY-MM".
        """
        parts = (
            *(_entry.day, _entry.job_id, _entry.lease_id, _entry.provider, _entry.kind),
            *(leases.c.gpu, leases.c.instance_id),
        )
        sums = select(*parts, func.sum(_entry.amount).label("amount")).join(leases, leases.c.id == _entry.lease_id)
        sums = sums.where(_is_spend).group_by(*parts)
        if month is not None:
            first, after = _month_of(_first_day(month))
            sums = sums.where(_entry.day >= first, _entry.day < after)
        if job_id is not None:
            sums = sums.where(_entry.job_id == job_id)
        amounts: dict[str, dict[CostKind, Decimal]] = defaultdict(lambda: dict.fromkeys(CostKind, ZERO))
        rented: dict[str, set[str]] = defaultdict(set)
        for row in (await self._run(sums)).all():
            key = _KEYS[by](row)
            amounts[key][row.kind] += row.amount
            rented[key].add(row.lease_id)
        return tuple(
            SpendRow(
                key=key,
                compute=amounts[key][CostKind.COMPUTE],
                storage=amounts[key][CostKind.STORAGE],
                bandwidth=amounts[key][CostKind.BANDWIDTH],
                instances=len(rented[key]),
            )
            for key in sorted(amounts)
        )


def _first_day(month: str) -> date:
    try:
        return date.fromisoformat(f"{month}-01")
    except ValueError:
        raise UserError(f"not a month: {month!r}", hint='write it as "2026-11"') from None


def _month_of(day: date) -> tuple[date, date]:
    """The first day of the month and of the next one."""
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
