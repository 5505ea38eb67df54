"""The rollup of spend: the sum of each lease, kind and UTC day, kept up to date in the transaction that posts.

Reports read it in place of the entries, of which there are hundreds for each sum. It holds nothing of its own:
``drift`` compares it with the entries, and ``rebuild`` recreates it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache

from sqlalchemy import Connection, Executable, delete, func, insert, literal, select, union_all
from sqlalchemy.dialects import postgresql, sqlite

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import SPEND_TYPES, LedgerEntry
from autopilot.domain.money import ZERO
from autopilot.store.schema import ledger_entries, spend_daily
from autopilot.store.statements import Statements

_day = spend_daily.c
_entry = ledger_entries.c


@dataclass(frozen=True, slots=True)
class RollupDrift:
    """A sum that the rollup does not hold as the entries make it."""

    day: date
    lease_id: str
    kind: CostKind
    rolled_up: Decimal
    posted: Decimal


async def roll_up(sql: Statements, entries: Iterable[LedgerEntry]) -> None:
    """Add what was newly posted."""
    sums: dict[tuple[date, str, CostKind], Decimal] = defaultdict(lambda: ZERO)
    for entry in entries:
        if entry.type in SPEND_TYPES:
            sums[entry.day, entry.lease_id, entry.kind] += entry.amount
    if sums:
        rows = [
            {"day": day, "lease_id": lease_id, "kind": kind, "amount": amount}
            for (day, lease_id, kind), amount in sums.items()
        ]
        await sql.run(_add_to_rollup(sql.dialect_name), rows)


def drift(connection: Connection, *, limit: int = 100) -> tuple[RollupDrift, ...]:
    """Where the rollup and the entries differ; nothing, as long as only this program writes."""
    rolled = select(_day.day, _day.lease_id, _day.kind, _day.amount.label("rolled"), literal(0).label("posted"))
    entries = select(_entry.day, _entry.lease_id, _entry.kind, literal(0), _entry.amount).where(
        _entry.type.in_(SPEND_TYPES)
    )
    both = union_all(rolled, entries).subquery()
    key = (both.c.day, both.c.lease_id, both.c.kind)
    sums = [func.sum(both.c.rolled, type_=_day.amount.type), func.sum(both.c.posted, type_=_day.amount.type)]
    chosen = select(*key, *sums).group_by(*key).having(func.sum(both.c.rolled) != func.sum(both.c.posted))
    return tuple(RollupDrift(*row) for row in connection.execute(chosen.order_by(*key).limit(limit)))


def rebuild(connection: Connection) -> None:
    """Recreate the rollup from the entries."""
    connection.execute(delete(spend_daily))
    key = (_entry.day, _entry.lease_id, _entry.kind)
    sums = select(*key, func.sum(_entry.amount)).where(_entry.type.in_(SPEND_TYPES)).group_by(*key)
    connection.execute(insert(spend_daily).from_select([column.key for column in spend_daily.c], sums))


@cache
def _add_to_rollup(dialect_name: str) -> Executable:
    make = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    added = make(spend_daily)
    return added.on_conflict_do_update(
        index_elements=spend_daily.primary_key.columns, set_={"amount": _day.amount + added.excluded.amount}
    )
