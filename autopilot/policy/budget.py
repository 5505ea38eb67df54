"""What a job may still spend. A lease commits us to more than it has cost: stopping it safely takes time and money.

    committed = spent + Σ stop cost of the live leases + Σ reserves of open intents        (docs/explanation/money.md)
    stop cost = rate × (detection + longest wait for the last checkpoint + destroy) + storage rate × tail

``spent`` includes what has accrued and is not yet posted.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import ZERO, worst_case
from autopilot.policy.params import Params


def stop_cost(rate: Decimal, storage_rate: Decimal, params: Params) -> Decimal:
    """Dollars to detect, save and destroy an instance that bills at these rates ($/h), rounded up."""
    stopping = timedelta(seconds=params.detect_s + params.save_timeout_s + params.destroy_s)
    return worst_case(rate, stopping) + worst_case(storage_rate, timedelta(hours=params.tail_h))


def create_reserve(rate: Decimal, storage_rate: Decimal, params: Params) -> Decimal:
    """Set aside with an intent: the stop cost of the lease it may become, and what it may bill unseen meanwhile."""
    unseen = timedelta(seconds=params.settle_s)
    return stop_cost(rate, storage_rate, params) + worst_case(rate + storage_rate, unseen)


def commitment(lease: Lease, params: Params) -> Decimal:
    if lease.is_over:
        return ZERO
    if lease.state is LeaseState.INTENT:
        return lease.reserved
    return stop_cost(lease.rate, lease.storage_rate, params)


def committed(job: Job, params: Params) -> Decimal:
    return job.spent + sum((commitment(lease, params) for lease in job.leases), ZERO)


def burn(leases: Iterable[Lease]) -> Decimal:
    """$/h that these leases may bill at once, at worst."""
    return sum((lease.burn_upper for lease in leases if not lease.is_over), ZERO)


def left(job: Job, params: Params) -> Decimal | None:
    """What the job may spend beyond its commitments; None without a budget."""
    return None if job.spec.budget is None else job.spec.budget - committed(job, params)
