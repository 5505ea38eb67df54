"""What it would cost to finish the job on an offer: dollars per unit of useful work, whatever market, GPU and link.

hours = (set-up + remaining work) + losses expected in it × (set-up + ½ checkpoint interval)      spot
hours =  set-up + remaining work                                                                  on demand
cost  = hours × (price of compute + storage rate) + expected traffic × the host's prices for it

Where an outbid machine does not come back, or comes back without its disk, each loss is received anew as well.

Losses are those of that machine, as far as it, its host or its kind was seen (``hazard``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.job import Job, JobSpec, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import accrue, ceil_nano
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.pricing.hazard import hazard, losses_expected
from autopilot.pricing.rule.bidding import first_bid
from autopilot.pricing.speed import setup_time, work_left
from autopilot.pricing.traffic import received_gb, sent_gb


@dataclass(frozen=True, slots=True)
class Candidate:
    """One offer, how to rent it, at what bid ($/h), and the cost to finish on it."""

    offer: Offer
    capacity_type: CapacityType
    bid: Decimal
    """The bid, or the on-demand price: the most that an hour of compute can cost."""
    expected_price: Decimal
    """What an hour of compute is expected to cost: the bid where bids are paid, else the floor."""
    cost: Decimal
    setup: timedelta
    work: timedelta | None
    """Time at work on these GPUs until the job is done, where it is known."""
    traffic: Decimal
    """Of ``cost`` what is expected to be received and sent, $."""

    @property
    def sort_key(self) -> tuple[Decimal, Decimal, str, str]:
        return self.cost, -self.offer.reliability, self.offer.provider, self.offer.machine_id


def cost_to_finish(
    job: Job, losses: float, burn: Decimal, left: timedelta | None, restart: timedelta, params: Params
) -> Decimal:
    """Expected dollars to the end with so much work ``left``, at so much an hour, disk included ($/h).

    ``losses``: machines expected to be lost meanwhile, each of which costs a set-up and half a checkpoint interval.
    """
    busy = restart + _work(left, params)
    if losses:
        busy += losses * (timedelta(seconds=params.timing.setup_s) + job.spec.checkpoint_interval / 2)
    return accrue(burn, busy)


def lease_cost_to_finish(
    job: Job, lease: Lease, bid: Decimal, restart_s: float, outlook: Outlook, now: datetime, params: Params
) -> Decimal:
    """The same on a machine that we hold, at another bid perhaps."""
    left, restart = work_left(job, lease.gpu, lease.num_gpus), timedelta(seconds=restart_s)
    losses = 0.0
    if lease.is_spot:
        per_h = hazard(outlook, lease.provider, lease.gpu, lease.host_id, lease.machine_id, params)
        age_h = (now - (lease.observed.running_since or now)).total_seconds() / 3600
        hours = (restart + _work(left, params)).total_seconds() / 3600
        losses = losses_expected(outlook, lease.provider, lease.gpu, per_h, age_h, hours, params)
    return cost_to_finish(job, losses, bid + lease.storage_rate, left, restart, params)


def _work(left: timedelta | None, params: Params) -> timedelta:
    return timedelta(seconds=params.deadline.horizon_s) if left is None else left


def price_candidates(job: Job, market: Market, offers: Iterable[Offer], params: Params) -> list[Candidate]:
    """Every candidate that these offers make and the job file allows, cheapest to the end first."""
    candidates: list[Candidate] = []
    spec = job.spec
    received, sent = received_gb(job, params), sent_gb(job, params)
    work: dict[tuple[str, int], timedelta | None] = {}
    held = {(lease.provider, lease.machine_id, lease.capacity_type) for lease in job.leases if lease.is_wanted}
    for offer in offers:
        gpus = offer.gpu, offer.num_gpus
        if gpus not in work:
            work[gpus] = work_left(job, *gpus)
        able = market.providers[offer.provider].capabilities
        storage = offer.storage_rate(spec.disk_gb)
        setup = setup_time(job, offer, params)
        traffic = ceil_nano(offer.download_price * received + offer.upload_price * sent)
        for capacity_type, bid, price in _prices(spec, offer, able, params):
            is_held = (offer.provider, offer.machine_id, capacity_type) in held
            if is_held or not _is_within_limits(spec, bid, storage):
                continue
            losses = 0.0
            if capacity_type is CapacityType.SPOT:
                losses = _losses(offer, (setup + _work(work[gpus], params)).total_seconds() / 3600, market, params)
            cost = cost_to_finish(job, losses, price + storage, work[gpus], setup, params) + traffic
            if losses and not (able.pauses_when_outbid and able.keeps_disk_when_stopped):
                cost += ceil_nano(offer.download_price * received * Decimal(losses))
            candidates.append(Candidate(offer, capacity_type, bid, price, cost, setup, work[gpus], traffic))
    return sorted(candidates, key=lambda c: c.sort_key)


def _prices(
    spec: JobSpec, offer: Offer, able: Capabilities, params: Params
) -> Iterator[tuple[CapacityType, Decimal, Decimal]]:
    """How the offer may be rented: capacity type, bid or on-demand price, and expected price, both in $/h."""
    if able.spot and spec.spot_policy is not SpotPolicy.ON_DEMAND:
        bid = first_bid(spec, offer, params)
        if bid is not None:
            yield CapacityType.SPOT, bid, bid if able.bills_at_bid else offer.floor or bid
    on_demand = offer.on_demand_price
    if able.on_demand and on_demand is not None and spec.spot_policy is not SpotPolicy.SPOT:
        yield CapacityType.ON_DEMAND, on_demand, on_demand


def _is_within_limits(spec: JobSpec, bid: Decimal, storage_rate: Decimal) -> bool:
    """Whether the job file allows so much for compute and, with the disk, for all; $/h."""
    if spec.max_hourly is not None and bid > spec.max_hourly:
        return False
    return spec.max_rate is None or bid + storage_rate <= spec.max_rate


def _losses(offer: Offer, hours: float, market: Market, params: Params) -> float:
    per_h = hazard(market.outlook, offer.provider, offer.gpu, offer.host_id, offer.machine_id, params)
    return losses_expected(market.outlook, offer.provider, offer.gpu, per_h, 0.0, hours, params)


def best(candidates: Iterable[Candidate], capacity_type: CapacityType | None = None) -> Candidate | None:
    return next((c for c in candidates if capacity_type is None or c.capacity_type is capacity_type), None)
