"""What it would cost to finish the job on an offer, so that unlike choices can be compared in dollars.

hours = (set-up + remaining work) × (1 + preemptions/h × (set-up + ½ checkpoint interval))       spot
hours =  set-up + remaining work                                                                  on demand
cost  = hours × (compute rate + storage rate) + expected traffic × the host's prices for it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import accrued, ceil_nano
from autopilot.domain.offer import CapacityType, Offer
from autopilot.policy.bidding import first_bid
from autopilot.policy.params import Params


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to get capacity: an offer, how to rent it, at what rate ($/h), and the cost to finish on it."""

    offer: Offer
    capacity_type: CapacityType
    rate: Decimal
    cost: Decimal

    @property
    def sort_key(self) -> tuple[Decimal, Decimal, str, str]:
        return self.cost, -self.offer.reliability, self.offer.provider, self.offer.machine_id


def remaining_work(job: Job, params: Params) -> timedelta:
    known = job.remaining_work
    return timedelta(seconds=params.waiting_horizon_s) if known is None else known


def cost_to_finish(
    job: Job, capacity_type: CapacityType, rate: Decimal, storage_rate: Decimal, restart_s: float, params: Params
) -> Decimal:
    """Expected dollars from now to the end on capacity that bills at these rates ($/h)."""
    hours_at = timedelta(seconds=restart_s) + remaining_work(job, params)
    if capacity_type is CapacityType.SPOT:
        lost_s = params.setup_s + job.spec.checkpoint_interval.total_seconds() / 2
        hours_at = hours_at * (1 + params.preemptions_per_hour * lost_s / 3600)
    return accrued(rate + storage_rate, hours_at)


def lease_cost_to_finish(job: Job, lease: Lease, rate: Decimal, restart_s: float, params: Params) -> Decimal:
    return cost_to_finish(job, lease.capacity_type, rate, lease.storage_rate, restart_s, params)


def candidates(job: Job, market: Market, offers: Iterable[Offer], params: Params) -> list[Candidate]:
    """All ways to rent these offers that the job file allows, cheapest to the end first."""
    found: list[Candidate] = []
    spec = job.spec
    for offer in offers:
        able = market.providers[offer.provider].capabilities
        rates: list[tuple[CapacityType, Decimal]] = []
        if able.spot and spec.spot_policy is not SpotPolicy.ON_DEMAND:
            bid = first_bid(spec, offer, params)
            if bid is not None:
                rates.append((CapacityType.SPOT, bid))
        on_demand = offer.on_demand_rate
        if able.on_demand and on_demand is not None and spec.spot_policy is not SpotPolicy.SPOT:
            rates.append((CapacityType.ON_DEMAND, on_demand))
        storage = offer.storage_rate(spec.disk_gb)
        traffic = ceil_nano(offer.download_price * params.image_gb + offer.upload_price * params.upload_gb)
        for capacity_type, rate in rates:
            if spec.max_hourly is not None and rate > spec.max_hourly:
                continue
            if spec.max_rate is not None and rate + storage > spec.max_rate:
                continue
            cost = cost_to_finish(job, capacity_type, rate, storage, params.setup_s, params) + traffic
            found.append(Candidate(offer, capacity_type, rate, cost))
    return sorted(found, key=lambda c: c.sort_key)


def best(found: Iterable[Candidate], capacity_type: CapacityType | None = None) -> Candidate | None:
    return next((c for c in found if capacity_type is None or c.capacity_type is capacity_type), None)
