"""Ledger entries: append-only. A correction is a new entry; ids derive from what is recorded: replays are harmless."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.instance import CostKind


class EntryType(StrEnum):
    RESERVE = "reserve"
    """Worst case set aside with an intent; not spend."""
    VOID = "void"
    """Ends a reserve (negative of it)."""
    ACCRUE = "accrue"
    """Spend by our own clock."""
    SETTLE = "settle"
    """The difference between what the market billed and what was accrued."""
    ADJUST = "adjust"
    """A later correction by the market."""


SPEND_TYPES = (EntryType.ACCRUE, EntryType.SETTLE, EntryType.ADJUST)


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


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One line of a spend report: ``key`` is the month, day, job, provider, GPU or kind asked for."""

    key: str
    compute: Decimal
    storage: Decimal
    bandwidth: Decimal
    instances: int

    @property
    def total(self) -> Decimal:
        return self.compute + self.storage + self.bandwidth
