"""Our own figures beside the market's: one row per instance and month."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import EntryType, InvoiceLine
from autopilot.domain.money import ZERO

RentedLease = tuple[str, str, str | None, str | None, str]
"""Id, provider, instance id, job id, GPU."""
SpendSum = tuple[str, EntryType, CostKind, date, Decimal]
"""Sum of all entries of one lease, type, kind and day."""


@dataclass(frozen=True, slots=True)
class ReconciliationRow:
    """One instance in one month: our estimate, what the ledger says, what the market billed. Dollars."""

    provider: str
    instance_id: str
    lease_id: str
    job_id: str | None
    gpu: str
    estimate: Decimal
    """By our own clock."""
    posted: Decimal
    """All spend in the ledger: the estimate and every correction."""
    invoiced: Decimal | None
    """The market's newest figures; None: it has billed nothing yet."""
    drift: Decimal | None
    """Market less estimate, on the days and kinds that it has billed."""


def newest_revisions(lines: Iterable[InvoiceLine]) -> dict[tuple[str, CostKind, date], InvoiceLine]:
    """The latest revision by lease, kind and day."""
    found: dict[tuple[str, CostKind, date], InvoiceLine] = {}
    for line in sorted(lines, key=lambda line: line.revision):
        found[line.lease_id, line.kind, line.day] = line
    return found


def compare_books(
    leases: Iterable[RentedLease], sums: Iterable[SpendSum], lines: Iterable[InvoiceLine]
) -> tuple[ReconciliationRow, ...]:
    """One row per lease, in the order of ``leases``."""
    estimate: dict[tuple[str, CostKind, date], Decimal] = {}
    estimated: dict[str, Decimal] = {}
    posted: dict[str, Decimal] = {}
    for lease_id, type_, kind, day, amount in sums:
        _add(posted, lease_id, amount)
        if type_ is EntryType.ACCRUE:
            _add(estimated, lease_id, amount)
            key = lease_id, kind.as_billed, day
            estimate[key] = estimate.get(key, ZERO) + amount
    invoiced: dict[str, Decimal] = {}
    drift: dict[str, Decimal] = {}
    for key, line in newest_revisions(lines).items():
        _add(invoiced, line.lease_id, line.amount)
        _add(drift, line.lease_id, drift_of(line.kind, line.amount - estimate.get(key, ZERO)))
    return tuple(
        ReconciliationRow(
            provider=provider,
            instance_id=instance_id or lease_id,
            lease_id=lease_id,
            job_id=job_id,
            gpu=gpu,
            estimate=estimated.get(lease_id, ZERO),
            posted=posted.get(lease_id, ZERO),
            invoiced=invoiced.get(lease_id),
            drift=drift.get(lease_id),
        )
        for lease_id, provider, instance_id, job_id, gpu in leases
    )


def drift_of(kind: CostKind, difference: Decimal) -> Decimal:
    """By how much a bill is off our clock: less traffic than was allowed for is nothing."""
    return max(difference, ZERO) if kind is CostKind.BANDWIDTH else difference


def _add(totals: dict[str, Decimal], key: str, amount: Decimal) -> None:
    totals[key] = totals.get(key, ZERO) + amount
