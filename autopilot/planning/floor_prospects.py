"""What was recorded of the cheapest floors, and the question that a forecast by them asks of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.engine.auctions import LEARN_FROM, is_auction, kind_of
from autopilot.ports.store import UnitOfWork
from autopilot.pricing.auction.first_step import first_step_s
from autopilot.pricing.auction.played_floors import LEVEL_SPREAD, RECORD_STEP_S, FloorsQuestion
from autopilot.pricing.availability.shape import LONGEST_S
from autopilot.pricing.pressure import left_longer_by, measure_pressure
from autopilot.pricing.rule.bidding import ceiling
from autopilot.pricing.rule.cost import Candidate, best

STEP = timedelta(seconds=RECORD_STEP_S)
MOST_KINDS = 3
"""GPUs whose floors are read for one plan."""
LAST_HOUR = 6
"""Steps."""
LEARNT_MARKUP = 1.04
"""Mean ratio of learned bids to the floor."""
LEAST_PLAYED = timedelta(hours=24)
"""A shorter record is not played: nothing was held against what came."""
LEAST_OFFERS = 4
"""So many must be there for a market of which less than a day was recorded to be played by its floor of now alone."""
FIRST_SPREAD = 0.17
"""The same as ``LEVEL_SPREAD``, there."""

Cheapest = Mapping[tuple[str, str, int], Sequence[float]]
"""(provider, GPU, number of GPUs) → the cheapest floor in each step in which any was recorded, oldest first, $/h."""


async def read_cheapest(uow: UnitOfWork, offers: Collection[Offer], now: datetime) -> Cheapest:
    """The cheapest floors of the offered GPUs, for as long as bids learn from."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for gpu in sorted({offer.gpu for offer in offers if offer.floor is not None})[:MOST_KINDS]:
        for each in await uow.prices.sum_by_step([gpu], now - LEARN_FROM, now, steps=LEARN_FROM // STEP):
            if each.low:
                found[each.provider, gpu, each.num_gpus].append(float(each.low))
    return found


def floors_question(
    job: Job, candidates: list[Candidate], market: Market, cheapest: Cheapest, now: datetime, params: Params
) -> FloorsQuestion | None:
    """None if its spot is not auctioned, or if neither a day was recorded nor a few machines are offered. Its
    budget and what it holds are left out.

    The record is of all machines. Where the cheapest that fits this job is dearer than any was in the last hour, the
    record counts as so much dearer.
    """
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    if spot is None or spot.work is None or len(job.spec.gpus) != 1:
        return None
    offer, able = spot.offer, market.providers[spot.offer.provider].capabilities
    record = cheapest.get((offer.provider, offer.gpu, offer.num_gpus), ())
    asked = on_demand.offer.on_demand_price if on_demand else offer.on_demand_price
    highest = ceiling(job.spec, asked, params)
    offers = sum(each.capacity_type is CapacityType.SPOT for each in candidates)
    is_recorded = len(record) * STEP >= LEAST_PLAYED
    if not is_auction(able) or not offer.floor or highest is None or not (is_recorded or offers >= LEAST_OFFERS):
        return None
    price_now = float(offer.floor)
    dearer = max(price_now / max(record[-LAST_HOUR:]), 1.0) if is_recorded else 1.0
    auction = kind_of(job, candidates, market, now, params) if is_recorded else None
    pressure = measure_pressure(job, now, params)
    if auction is None:
        guard_s = pressure.at_risk_s + pressure.to_on_demand_s + 2 * pressure.step_s
    else:
        guard_s = first_step_s(spot.setup.total_seconds()) + pressure.step_s
    work_s = spot.work.total_seconds()
    held_s = max(pressure.upper_work_s - pressure.work_s, 0.0)
    left_s = LONGEST_S if job.spec.deadline is None else (job.spec.deadline - now).total_seconds()
    # Where the bid is not paid, what counts is the floor, and of what runs the price that it is charged.
    markup = float(params.bids.markup) if auction is None else LEARNT_MARKUP
    held = job.main if job.main is not None and job.main.is_spot else None
    return FloorsQuestion(
        (*(floor * dearer for floor in record), price_now) if is_recorded else (price_now,),
        level_spread=LEVEL_SPREAD if is_recorded else FIRST_SPREAD,
        ceiling=float(highest),
        markup=markup if able.bills_at_bid else 1.0,
        on_demand_price=_on_demand_price(job, on_demand),
        storage_rate=float(offer.storage_rate(job.spec.disk_gb)),
        left_s=left_s,
        work_s=work_s,
        estimate_error=left_longer_by(job, params.deadline),
        held_s=held_s,
        setup_s=spot.setup.total_seconds(),
        lost_s=job.spec.checkpoint_interval.total_seconds() / 2,
        guard_s=guard_s,
        waits=auction is not None,
        bid=float(held.computes_at) if held is not None else 0.0,
    )


def _on_demand_price(job: Job, on_demand: Candidate | None) -> float | None:
    """$/h of what it falls back to, or holds; None if it does neither."""
    if job.main is not None and not job.main.is_spot:
        return float(job.main.bid)
    falls_back = job.spec.deadline is not None and job.spec.fall_back
    return float(on_demand.expected_price) if on_demand is not None and falls_back else None
