"""Settling: once an instance is gone, the ledger takes over what the market billed for it, line by line and day by day.

The difference to our own accrual is posted as ``settle``, into the day it belongs to. A lease for which the market
shows no line yet stays unsettled while it cost anything that could show (charges lag and are rounded to $0.001).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.domain.money import CENT, ZERO, to_nano
from autopilot.engine.accrue import Posted, entry

SHOWS_UP = Decimal("0.0005")
"""Less than this per kind and day rounds to nothing on the market's bill."""
PARTIAL_FOR = timedelta(hours=24)
"""Until then a bill that lacks lines, or comes to less than half of what was accrued, is taken to be unfinished."""
GIVE_UP_AFTER = timedelta(hours=72)
"""A market that shows no line for so long will not; our own accrual stands."""


def settlement(
    lease: Lease, posted: Posted, charges: Iterable[Charge], now: datetime
) -> tuple[LedgerEntry, ...] | None:
    """Entries that bring the ledger to the market's figures, or None when the bill is not complete yet."""
    billed: dict[tuple[CostKind, date], Decimal] = {}
    for charge in charges:
        if charge.instance_id == lease.instance_id:
            key = charge.kind, charge.day
            billed[key] = billed.get(key, ZERO) + charge.amount
    waited = now - (lease.gone_at or now)
    lacks_lines = any(
        amount > SHOWS_UP * 2 and key not in billed and key[0] is not CostKind.BANDWIDTH
        for key, amount in posted.items()
    )
    accrued, total = sum(posted.values(), ZERO), sum(billed.values(), ZERO)
    is_partial = total < accrued / 2 and accrued > CENT
    if waited < PARTIAL_FOR and (lacks_lines or is_partial):
        return None
    if not billed and accrued > CENT:
        # No line at all proves nothing: the accrual stands, it is never wiped by silence.
        return None if waited < GIVE_UP_AFTER else ()
    settled: list[LedgerEntry] = []
    for kind, day in sorted({*billed, *posted}):
        before, after = posted.get((kind, day), ZERO), billed.get((kind, day), ZERO)
        if before != after:
            mark = f"{to_nano(before)}-{to_nano(after)}"
            settled.append(entry(EntryType.SETTLE, lease, kind, day, after - before, now, mark=mark))
    return tuple(settled)


def window(leases: Iterable[Lease], now: datetime) -> tuple[date, date]:
    """The UTC days whose charges cover the whole life of these leases."""
    return min((lease.intended_at for lease in leases), default=now).date(), now.date()


def due(leases: Iterable[Lease], now: datetime, delay: timedelta) -> dict[str, list[Lease]]:
    """Leases whose bill may be complete, by provider."""
    found: dict[str, list[Lease]] = {}
    for lease in leases:
        if lease.gone_at is not None and now - lease.gone_at >= delay:
            found.setdefault(lease.provider, []).append(lease)
    return found
