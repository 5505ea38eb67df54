"""Posting what leases cost and what is set aside for them: totals less what the ledger holds, in steps worth a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease, cost_by_day, keep_watched
from autopilot.domain.ledger import EntryType, KindAndDay, LeaseBooks, LedgerEntry
from autopilot.domain.money import CENT, ZERO, to_nano
from autopilot.domain.params import Params
from autopilot.policy.budget import commitment
from autopilot.ports.store import UnitOfWork


def accruals(lease: Lease, accrued: Mapping[KindAndDay, Decimal], now: datetime) -> tuple[list[LedgerEntry], Decimal]:
    """Entries due now, and what has accrued beyond them (dollars). ``accrued``: posted so far by our own clock alone.

    An entry is due once it is worth a cent, when its day is over, and when the lease is over. Its id is made of the
    running total, so the same accrual is never posted twice.
    """
    entries: list[LedgerEntry] = []
    rest = ZERO
    for (kind, day), amount in sum_unposted(lease, accrued, now).items():
        if amount >= CENT or lease.is_over or day < now.date():
            total = accrued.get((kind, day), ZERO) + amount
            entries.append(entry(EntryType.ACCRUE, lease, kind, day, amount, now, mark=f"{to_nano(total)}"))
        else:
            rest += amount
    return entries, rest


def sum_unposted(lease: Lease, accrued: Mapping[KindAndDay, Decimal], now: datetime) -> dict[KindAndDay, Decimal]:
    """What the lease has cost by our own clock beyond ``accrued``, in dollars, as far as somebody watched.

    The rest is held back at its highest price (``budget.unobserved_cost``) until the market shows what became of it.
    """
    more = {key: total - accrued.get(key, ZERO) for key, total in cost_by_day(keep_watched(lease, now), now).items()}
    return {key: amount for key, amount in more.items() if amount > ZERO}


async def post_accruals(uow: UnitOfWork, leases: Sequence[Lease], now: datetime) -> dict[str, tuple[Decimal, Decimal]]:
    """Post what is due; by lease what that was, and what has accrued beyond it (dollars)."""
    books = await uow.ledger.sum_books([lease.id for lease in leases])
    due: list[LedgerEntry] = []
    accrued: dict[str, tuple[Decimal, Decimal]] = {}
    for lease in leases:
        entries, unposted = accruals(lease, books[lease.id].accrued, now)
        due += entries
        accrued[lease.id] = sum((entry.amount for entry in entries), ZERO), unposted
    await uow.ledger.post(due)
    return accrued


def reserve_change(lease: Lease, books: LeaseBooks, held: Decimal, now: datetime) -> LedgerEntry | None:
    """What brings the open reserve to ``held``, what the lease commits us to; None when nothing is worth a row.

    More is set aside to the last nano-dollar and before anything is sent; less is given back from a cent on.
    """
    change = held - books.reserved
    if change == ZERO or (-CENT < change < ZERO and not lease.is_over):
        return None
    number = books.reserve_rows + 1
    return LedgerEntry(
        id=_reserve_id(lease, number),
        type=EntryType.RESERVE if change > ZERO else EntryType.VOID,
        kind=CostKind.COMPUTE,
        lease_id=lease.id,
        job_id=lease.job_id,
        provider=lease.provider,
        day=lease.intended_at.date(),
        amount=change,
        posted_at=now,
        corrects=_reserve_id(lease, number - 1) if number > 1 else None,
    )


async def hold_reserves(uow: UnitOfWork, leases: Iterable[Lease], params: Params, now: datetime) -> None:
    """Post every change of what is set aside for these leases."""
    held = {lease.id: lease for lease in leases}
    books = await uow.ledger.sum_books(list(held))
    changes = (reserve_change(lease, books[lease.id], commitment(lease, params), now) for lease in held.values())
    await uow.ledger.post([change for change in changes if change is not None])


def entry(
    type_: EntryType,
    lease: Lease,
    kind: CostKind,
    day: date,
    amount: Decimal,
    now: datetime,
    *,
    mark: str,
) -> LedgerEntry:
    name = f"{lease.id}:{type_}:{kind}:{day}:{mark}"
    return LedgerEntry(name, type_, kind, lease.id, lease.job_id, lease.provider, day, amount, now)


def _reserve_id(lease: Lease, number: int) -> str:
    return f"{lease.id}:reserve:{number}"
