"""What the market's bill says of a certification: the price of computing and of the disk, and how late it came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.certify.job import LARGE_IMAGE_GB
from autopilot.domain.certificate import ClaimFinding, ClaimVerdict
from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import InvoiceLine
from autopilot.domain.money import ZERO

IN_TIME = timedelta(hours=25)
"""A day, and the hour between two looks at a bill."""
SHARE = Decimal("0.08")
"""Share of the estimate: our view of a machine's starts and pauses is late by up to a tick and a list."""
ROUNDING = Decimal("0.003")
"""Dollars that may round away, over the lines of a few days."""


def judge_bills(
    job_id: str,
    leases: Sequence[Lease],
    lines: Iterable[InvoiceLine],
    accrued: Mapping[CostKind, Decimal],
    now: datetime,
) -> tuple[ClaimFinding, ...]:
    """Findings on the claims that the bill settles; none while it is awaited.

    ``lines``: the newest revision of each line of these leases. ``accrued``: dollars by our own clock, by kind.
    """
    rented = [lease for lease in leases if lease.instance_id is not None and lease.ending.gone_at is not None]
    gone = max((lease.ending.gone_at for lease in rented if lease.ending.gone_at), default=None)
    if gone is None:
        return ()
    settled = [lease.billing.settled_at for lease in rented]
    if any(at is None for at in settled):
        late = now - gone > IN_TIME
        hours = round((now - gone).total_seconds() / 3600)
        return (ClaimFinding(job_id, "bill-in-a-day", ClaimVerdict.BROKEN, now, (("hours", hours),)),) if late else ()
    hours = round((max(at for at in settled if at is not None) - gone).total_seconds() / 3600)
    in_time = ClaimVerdict.HELD if hours <= IN_TIME / timedelta(hours=1) else ClaimVerdict.BROKEN
    billed: dict[CostKind, Decimal] = {}
    for line in lines:
        kind = line.kind.as_billed
        billed[kind] = billed.get(kind, ZERO) + line.amount
    return (
        ClaimFinding(job_id, "bill-in-a-day", in_time, now, (("hours", hours),)),
        _compare(job_id, "bid-is-paid", billed, accrued, CostKind.COMPUTE, now),
        _compare(job_id, "disk-is-billed", billed, accrued, CostKind.STORAGE_RUNNING, now),
        _find_pull(job_id, rented, billed, accrued, now),
    )


def _find_pull(
    job_id: str,
    rented: Sequence[Lease],
    billed: Mapping[CostKind, Decimal],
    accrued: Mapping[CostKind, Decimal],
    now: datetime,
) -> ClaimFinding:
    """Whether the bill has traffic that is not what the machines sent: half of the image at least."""
    expected = sum((each.traffic.download_price * LARGE_IMAGE_GB for each in rented if each.has_run), ZERO)
    received = billed.get(CostKind.BANDWIDTH, ZERO) - accrued.get(CostKind.BANDWIDTH, ZERO)
    numbers = (("expected", expected), ("billed", received))
    if expected <= ROUNDING:
        return ClaimFinding(job_id, "pull-is-billed", ClaimVerdict.NOT_SEEN, now, numbers)
    verdict = ClaimVerdict.HELD if received >= expected / 2 else ClaimVerdict.BROKEN
    return ClaimFinding(job_id, "pull-is-billed", verdict, now, numbers)


def _compare(
    job_id: str,
    claim: str,
    billed: Mapping[CostKind, Decimal],
    accrued: Mapping[CostKind, Decimal],
    kind: CostKind,
    now: datetime,
) -> ClaimFinding:
    market, ours = billed.get(kind, ZERO), accrued.get(kind, ZERO)
    numbers = (("billed", market), ("ledger", ours))
    if ours <= ROUNDING and market <= ROUNDING:
        return ClaimFinding(job_id, claim, ClaimVerdict.NOT_SEEN, now, numbers)
    differs = abs(market - ours) > ours * SHARE + ROUNDING
    return ClaimFinding(job_id, claim, ClaimVerdict.BROKEN if differs else ClaimVerdict.HELD, now, numbers)
