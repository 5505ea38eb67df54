"""Ledger entries: append-only. A correction is a new entry; ids derive from what is recorded: replays are harmless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.instance import CostKind
from autopilot.domain.money import ZERO


class EntryType(StrEnum):
    RESERVE = "reserve"
    """Worst case set aside before something is asked of a market; not spend."""
    VOID = "void"
    """Ends a reserve, or the part of it that is no longer needed (negative)."""
    ACCRUE = "accrue"
    """Spend by our own clock: the estimate."""
    SETTLE = "settle"
    """An imported invoice line that lies within rounding of the estimate."""
    ADJUST = "adjust"
    """An imported invoice line that drifts from the estimate, or corrects an earlier line."""


BILL_TYPES = (EntryType.SETTLE, EntryType.ADJUST)
SPEND_TYPES = (EntryType.ACCRUE, *BILL_TYPES)
RESERVE_TYPES = (EntryType.RESERVE, EntryType.VOID)

KindAndDay = tuple[CostKind, date]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    id: str
    type: EntryType
    kind: CostKind
    lease_id: str
    job_id: str | None
    provider: str
    day: date
    """The UTC day to which the spend belongs, whenever it was posted."""
    amount: Decimal
    posted_at: datetime
    corrects: str | None = None
    """Id of the entry that this one ends or corrects."""
    line_id: str | None = None
    """Id of the ``InvoiceLine`` that this entry imports."""

    @property
    def is_spend(self) -> bool:
        return self.type in SPEND_TYPES


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """What the market billed for one instance, kind and UTC day, as it said at one time. A new figure is a new line."""

    id: str
    provider: str
    instance_id: str
    lease_id: str
    kind: CostKind
    day: date
    amount: Decimal
    revision: int
    """1 for the first figure that was seen; each other figure after it counts on."""
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class LeaseBooks:
    """What the ledger holds for one lease, summed."""

    accrued: Mapping[KindAndDay, Decimal] = field(default_factory=dict)
    """By our own clock alone."""
    reserved: Decimal = ZERO
    """Set aside and not yet voided."""
    reserve_rows: int = 0
    """Entries that made it so, both ways: the next one's number."""

    def with_entry(self, entry: LedgerEntry) -> LeaseBooks:
        if entry.type is EntryType.ACCRUE:
            key = entry.kind, entry.day
            return replace(self, accrued={**self.accrued, key: self.accrued.get(key, ZERO) + entry.amount})
        if entry.type in RESERVE_TYPES:
            return replace(self, reserved=self.reserved + entry.amount, reserve_rows=self.reserve_rows + 1)
        return self


def sum_given_back(billed: Decimal, held: Decimal) -> Decimal:
    """Dollars that are free again of a machine that is gone. ``billed``: by how much bills had changed its spend;
    ``held``: by how much what is held for it has changed since. What was held for traffic was never spend."""
    return min(max(-billed, ZERO), max(-held, ZERO))
