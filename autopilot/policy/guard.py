"""A second, independent reading of each decision, just before it is committed. It knows limits and churn, nothing else.

It shares nothing with ``decide`` but the arithmetic of commitments, so that one wrong rule cannot spend past a cap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from autopilot.domain.actions import Acquire, Action, ChangeBid, Decision, Number, Promote, Veto
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.bidding import ceiling
from autopilot.policy.params import Params


@dataclass(frozen=True, slots=True)
class Limits:
    """The account's own caps, over all jobs. ``None``: no such cap."""

    day: Decimal | None
    month: Decimal | None
    max_hourly: Decimal | None
    max_instances: int
    launches_per_job_10min: int
    launches_per_hour: int


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where all jobs together stand before the action."""

    leases: tuple[Lease, ...]
    """Every lease that is not over, of every job."""
    spent_day: Decimal
    spent_month: Decimal
    """Both with what has accrued and is not posted."""
    launches_job_10min: int
    launches_hour: int


Refusal = tuple[Reason, tuple[tuple[str, Number], ...]]


def guard(
    job: Job, decision: Decision, market: Market, exposure: Exposure, limits: Limits, now: datetime, params: Params
) -> tuple[tuple[Action, ...], tuple[Veto, ...]]:
    """The actions that may go on, and those that may not. At most one Acquire of a decision passes."""
    allowed: list[Action] = []
    vetoes: list[Veto] = []
    for action in decision.actions:
        refusal = _refusal(job, action, allowed, market, exposure, limits, params)
        if refusal is None:
            allowed.append(action)
        else:
            vetoes.append(Veto(action, *refusal))
    return tuple(allowed), tuple(vetoes)


def _refusal(
    job: Job,
    action: Action,
    allowed: Iterable[Action],
    market: Market,
    exposure: Exposure,
    limits: Limits,
    params: Params,
) -> Refusal | None:
    match action:
        case Acquire():
            if any(isinstance(other, Acquire) for other in allowed) or job.lease_in(action.slot) is not None:
                return Reason.SLOT_TAKEN, (("slot", action.slot),)
            return _acquire_refusal(job, action, market, exposure, limits, params)
        case ChangeBid(lease_id, bid, _):
            lease = next((lease for lease in job.leases if lease.id == lease_id), None)
            if lease is None or bid <= lease.rate:
                return None
            limit = ceiling(job.spec, lease.on_demand_rate, params)
            if limit is None or bid > limit:
                return Reason.BID_ABOVE_CEILING, (("bid", bid), ("ceiling", limit))
            grown = budget.stop_cost(bid, lease.storage_rate, params) - budget.commitment(lease, params)
            return _over_caps(job, grown, bid - lease.rate, exposure, limits, params)
        case Promote(lease_id):
            held = job.lease_in(Slot.MAIN)
            freed = any(getattr(other, "lease_id", None) == held.id for other in allowed) if held else True
            return None if freed else (Reason.SLOT_TAKEN, (("slot", Slot.MAIN),))
        case _:
            return None


def _acquire_refusal(
    job: Job, action: Acquire, market: Market, exposure: Exposure, limits: Limits, params: Params
) -> Refusal | None:
    if not market.knows(action.offer.provider):
        return Reason.MARKET_UNKNOWN, ()
    live = sum(1 for lease in exposure.leases if not lease.is_over)
    if live >= limits.max_instances:
        return Reason.TOO_MANY_INSTANCES, (("live", live), ("limit", limits.max_instances))
    if exposure.launches_job_10min >= limits.launches_per_job_10min:
        return Reason.TOO_MANY_LAUNCHES, (("in_10_minutes", exposure.launches_job_10min),)
    if exposure.launches_hour >= limits.launches_per_hour:
        return Reason.TOO_MANY_LAUNCHES, (("in_1_hour", exposure.launches_hour),)
    if action.capacity_type is CapacityType.SPOT:
        limit = ceiling(job.spec, action.offer.on_demand_rate, params)
        if limit is None or action.rate > limit:
            return Reason.BID_ABOVE_CEILING, (("bid", action.rate), ("ceiling", limit))
    storage = action.offer.storage_rate(job.spec.disk_gb)
    reserve = budget.create_reserve(action.rate, storage, params)
    credit = market.providers[action.offer.provider].credit
    if credit is not None and credit < reserve:
        return Reason.LOW_CREDIT, (("credit", credit), ("reserve", reserve))
    return _over_caps(job, reserve, action.rate + storage, exposure, limits, params)


def _over_caps(
    job: Job, more: Decimal, more_per_hour: Decimal, exposure: Exposure, limits: Limits, params: Params
) -> Refusal | None:
    """The first cap that ``more`` dollars committed, or ``more_per_hour`` $/h burnt, would break."""
    if job.spec.budget is not None:
        after = budget.committed(job, params) + more
        if after > job.spec.budget:
            return Reason.OVER_BUDGET, (("committed", after), ("budget", job.spec.budget))
    if job.spec.max_rate is not None:
        rate = budget.burn(job.leases) + more_per_hour
        if rate > job.spec.max_rate:
            return Reason.OVER_RATE_LIMIT, (("rate", rate), ("limit", job.spec.max_rate))
    open_commitments = sum((budget.commitment(lease, params) for lease in exposure.leases), ZERO)
    for reason, spent, limit in (
        (Reason.OVER_DAY_LIMIT, exposure.spent_day, limits.day),
        (Reason.OVER_MONTH_LIMIT, exposure.spent_month, limits.month),
    ):
        if limit is not None and spent + open_commitments + more > limit:
            return reason, (("committed", spent + open_commitments + more), ("limit", limit))
    if limits.max_hourly is not None:
        rate = budget.burn(exposure.leases) + more_per_hour
        if rate > limits.max_hourly:
            return Reason.OVER_RATE_LIMIT, (("rate", rate), ("limit", limits.max_hourly))
    return None
