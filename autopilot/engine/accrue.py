"""Posting what leases cost: totals by our own clock less what is posted, in steps worth a row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease, cost_by_day
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import CENT, ZERO, to_nano

Posted = Mapping[tuple[CostKind, date], Decimal]


def accruals(lease: Lease, posted: Posted, now: datetime) -> tuple[list[LedgerEntry], Decimal]:
    """Entries due now, and what has accrued beyond them (dollars).

    An entry is due once it is worth a cent, when its day is over, and when the lease is over. Its id is made of the
    running total, so the same accrual is never posted twice.
    """
    entries: list[LedgerEntry] = []
    unposted = ZERO
    for (kind, day), total in cost_by_day(lease, now).items():
        amount = total - posted.get((kind, day), ZERO)
        if amount <= ZERO:
            continue
        if amount >= CENT or lease.is_over or day < now.date():
            entries.append(entry(EntryType.ACCRUE, lease, kind, day, amount, now, mark=f"{to_nano(total)}"))
        else:
            unposted += amount
    return entries, unposted


def reserve(lease: Lease, now: datetime) -> LedgerEntry:
    return entry(EntryType.RESERVE, lease, CostKind.COMPUTE, now.date(), lease.reserved, now)


def void(lease: Lease, now: datetime) -> LedgerEntry:
    """Ends the reserve of a lease that is over."""
    day = lease.intended_at.date()
    opened = f"{lease.id}:{EntryType.RESERVE}:{CostKind.COMPUTE}:{day}"
    return entry(EntryType.VOID, lease, CostKind.COMPUTE, day, -lease.reserved, now, corrects=opened)


def entry(
    type_: EntryType,
    lease: Lease,
    kind: CostKind,
    day: date,
    amount: Decimal,
    now: datetime,
    *,
    mark: str = "",
    corrects: str | None = None,
) -> LedgerEntry:
    name = f"{lease.id}:{type_}:{kind}:{day}" + (f":{mark}" if mark else "")
    return LedgerEntry(name, type_, kind, lease.id, lease.job_id, lease.provider, day, amount, now, corrects)
