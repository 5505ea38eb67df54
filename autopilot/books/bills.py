"""How far a machine's bill has come."""

from __future__ import annotations

from autopilot.domain.lease import Lease


def waits_for(lease: Lease) -> str:
    """Why the bill of a machine that is not settled is not yet believed."""
    if lease.ending.gone_at is None:
        return "its_end"
    return lease.billing.waits_for or "first_look"
