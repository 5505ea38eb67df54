"""What it would cost to finish the job on an offer: dollars per unit of useful work, on any market, GPU and link.

hours = (set-up + remaining work) + losses expected in it × (set-up + ½ checkpoint interval)      spot
hours =  set-up + remaining work                                                                  on demand
cost  = hours × (price of compute + storage rate) + expected traffic × the host's prices for it

Where an outbid machine does not come back, or comes back without its disk, each loss is received again as well.

Where a bid raises what our other machines pay, that is part of its price.
What a machine has shown of itself adds to it: launches that come to nothing, a slower pace (``host_odds``).
Losses are those of that machine, as far as it, its host or its kind was seen (``hazard``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.job import Job, JobSpec, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO, accrue, ceil_nano
from autopilot.domain.offer import Capabilities, CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.pricing.hazard import hazard, losses_expected
from autopilot.pricing.host_odds import Burden, weigh_host
from autopilot.pricing.rule.bidding import first_bid, reservation
from autopilot.pricing.speed import setup_time, work_left, work_left_on
from autopilot.pricing.traffic import received_gb, restart_s, sent_gb

SortKey = tuple[Decimal, Decimal, str, str]
Place = tuple[SortKey, int]
"""Among all candidates: of those with equal keys the one that was listed first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One offer, how to rent it, at what bid ($/h), and the cost to finish on it."""

    offer: Offer
    capacity_type: CapacityType
    bid: Decimal
    """The bid, or the on-demand price: the most that an hour of compute can cost."""
    expected_price: Decimal
    """What an hour of compute is expected to cost: the bid where bids are paid, else the floor: who wins by it pays the
    highest bid that loses."""
    cost: Decimal
    setup: timedelta
    """Until the command runs, with what may be waited for in vain before."""
    work: timedelta | None
    """Time at work on these GPUs until the job is done, where it is known."""
    traffic: Decimal
    """The part of ``cost`` for expected downloads and uploads, $."""

    @property
    def sort_key(self) -> SortKey:
        return self.cost, -self.offer.reliability, self.offer.provider, self.offer.machine_id


def cost_to_finish(
    job: Job, losses: float, burn: Decimal, left: timedelta | None, restart: timedelta, params: Params
) -> Decimal:
    """Expected dollars to the end with so much work ``left``, at so much an hour, disk included ($/h).

    ``losses``: machines expected to be lost meanwhile, each of which costs a set-up and half a checkpoint interval.
    """
    busy = restart + _work(left, params)
    if losses:
        busy += losses * (timedelta(seconds=restart_s(job, params)) + job.spec.checkpoint_interval / 2)
    return accrue(burn, busy)


def lease_cost_to_finish(
    job: Job, lease: Lease, bid: Decimal, restart_s: float, outlook: Outlook, now: datetime, params: Params
) -> Decimal:
    """The same on a machine that we hold, at another bid perhaps."""
    left, restart = work_left_on(job, lease), timedelta(seconds=restart_s)
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
    price = Pricing(job, market, params)
    return sorted((candidate for offer in offers for candidate in price.all(offer)), key=lambda c: c.sort_key)


class _Found(NamedTuple):
    """As of ``Candidate``."""

    cost: Decimal
    setup: timedelta
    work: timedelta | None
    traffic: Decimal
    hours: float
    """Of set-up and work, without losses."""


class Pricing:
    """The pricing of offers for one job: what is the same for all of them is worked out once."""

    def __init__(self, job: Job, market: Market, params: Params) -> None:
        self._job = job
        self._market = market
        self._params = params
        self.received_gb, self.sent_gb = received_gb(job, params), sent_gb(job, params)
        self._work: dict[tuple[str, int], timedelta | None] = {}
        self._found: dict[tuple[object, ...], _Found] = {}
        self._held = {
            (lease.provider, lease.machine_id, lease.capacity_type)
            for lease in job.leases
            if lease.is_wanted and not lease.anchor.is_slow  # another one of that pool is not the same again
        }

    def work(self, gpu: str, count: int) -> timedelta | None:
        """At work on ``count`` × ``gpu`` until the job is done; None if nothing is known of its length."""
        gpus = gpu, count
        if gpus not in self._work:
            self._work[gpus] = work_left(self._job, gpu, count)
        return self._work[gpus]

    def all(self, offer: Offer) -> Iterator[Candidate]:
        """The ways to rent the offer that the job file allows: by a bid, then on demand."""
        for capacity_type in (CapacityType.SPOT, CapacityType.ON_DEMAND):
            candidate = self.of(offer, capacity_type)
            if candidate is not None:
                yield candidate

    def of(self, offer: Offer, capacity_type: CapacityType) -> Candidate | None:
        """None if it cannot be rented so, the job file does not allow it, or the job holds that machine so."""
        job, market, params = self._job, self._market, self._params
        able = market.providers[offer.provider].capabilities
        prices = _prices(job.spec, offer, able, capacity_type, params)
        if prices is None or (offer.provider, offer.machine_id, capacity_type) in self._held:
            return None
        bid, price = prices
        storage = offer.storage_rate(job.spec.disk_gb)
        if not _is_within_limits(job.spec, bid, storage):
            return None
        burden = weigh_host(market.hosts, offer, job, price + storage, params, is_pooled=able.is_pooled)
        is_spot, hourly, per_h = capacity_type is CapacityType.SPOT, price + storage, 0.0
        if is_spot:
            per_h = hazard(market.outlook, offer.provider, offer.gpu, offer.host_id, offer.machine_id, params)
            ours = market.ours.get((offer.provider, offer.machine_id))
            hourly += ZERO if ours is None else ours.dearer_by(price)
        # Many offers of a market cost the same, where bids are in steps.
        kind, traffic = (offer.provider, offer.gpu, offer.num_gpus), (offer.download_price, offer.upload_price)
        key = (kind, hourly, traffic, offer.download_mbps, burden, is_spot, per_h)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(offer, able, hourly, burden, per_h)
        if is_spot and not able.bills_at_bid:
            left = None if job.spec.budget is None else job.spec.budget - job.spent - job.held
            bid = max(bid, reservation(job.spec, offer, params, left, found.hours) or bid)
        return Candidate(offer, capacity_type, bid, price, found.cost, found.setup, found.work, found.traffic)

    def _find(self, offer: Offer, able: Capabilities, hourly: Decimal, burden: Burden, per_h: float) -> _Found:
        """``hourly``: $/h of all that is paid there, ``per_h``: losses."""
        job, params, work = self._job, self._params, self.work(offer.gpu, offer.num_gpus)
        if burden.pace < 1:
            work = _work(work, params) / burden.pace
        setup = max(setup_time(job, offer, params), burden.load)
        hours = (setup + _work(work, params)).total_seconds() / 3600
        losses = losses_expected(self._market.outlook, offer.provider, offer.gpu, per_h, 0.0, hours, params)
        traffic = ceil_nano(offer.download_price * self.received_gb + offer.upload_price * self.sent_gb)
        cost = cost_to_finish(job, losses, hourly, work, setup, params) + traffic + burden.lost
        if losses and not able.resumes_where_it_was:
            cost += ceil_nano(offer.download_price * self.received_gb * Decimal(losses))
        return _Found(cost, setup + burden.waited, work, traffic, hours)


def _prices(
    spec: JobSpec, offer: Offer, able: Capabilities, capacity_type: CapacityType, params: Params
) -> tuple[Decimal, Decimal] | None:
    """The bid or on-demand price, and the expected price, both in $/h; None if it is not to be had so."""
    if capacity_type is CapacityType.ON_DEMAND:
        on_demand = offer.on_demand_price
        is_offered = able.on_demand and on_demand is not None and spec.spot_policy is not SpotPolicy.SPOT
        return (on_demand, on_demand) if is_offered and on_demand is not None else None
    if not able.spot or spec.spot_policy is SpotPolicy.ON_DEMAND:
        return None
    bid = first_bid(spec, offer, params)
    return None if bid is None else (bid, bid if able.bills_at_bid else offer.floor or bid)


def _is_within_limits(spec: JobSpec, bid: Decimal, storage_rate: Decimal) -> bool:
    """Whether the job file allows so much for compute and, with the disk, for all; $/h."""
    if spec.max_hourly is not None and bid > spec.max_hourly:
        return False
    return spec.max_rate is None or bid + storage_rate <= spec.max_rate


def best(candidates: Iterable[Candidate], capacity_type: CapacityType | None = None) -> Candidate | None:
    return next((c for c in candidates if capacity_type is None or c.capacity_type is capacity_type), None)
