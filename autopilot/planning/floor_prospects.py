"""What was recorded of the cheapest floors, and the question that a forecast by them asks of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf

from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.engine.auctions import LEARN_FROM, kind_of
from autopilot.engine.engine import Engine
from autopilot.policy.array_measures import like_a_task
from autopilot.policy.auctioned import weigh
from autopilot.policy.situation import Situation
from autopilot.ports.store import UnitOfWork
from autopilot.pricing.auction.played_floors import HOUR_S, LEVEL_SPREAD, RECORD_STEP_S, FloorsQuestion
from autopilot.pricing.auction.shadows import expected_bidders
from autopilot.pricing.availability.shape import LONGEST_S
from autopilot.pricing.pressure import left_longer_by, measure_pressure
from autopilot.pricing.rule.candidates import Candidates
from autopilot.pricing.rule.cost import Candidate, best

HOUR = timedelta(hours=1)
STEP = timedelta(seconds=RECORD_STEP_S)
MOST_KINDS = 3
"""GPUs whose floors are read for one plan."""
LAST_HOUR = 6
"""Steps."""
MOST_TIMES_WORK = 6
"""Without a deadline so many times the work is played; what is left then goes on at the same price."""
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


async def with_bidders(engine: Engine, job: Job, market: Market, now: datetime) -> Market:
    """The market with what the bids of that job, or of a task of that array, would be made by."""
    like = like_a_task(job) if job.is_array else job
    return replace(market, outlook=await engine.outlooks.of_plan(like, market, now))


def floors_question(
    job: Job, candidates: list[Candidate], market: Market, cheapest: Cheapest, now: datetime, params: Params
) -> FloorsQuestion | None:
    """None if its spot is not auctioned, or if neither a day was recorded nor a few machines are offered. Its
    budget is left out.

    The record is of all machines. Where the cheapest that fits this job is dearer than any was in the last hour, the
    record counts as so much dearer.
    """
    spot, kind = best(candidates, CapacityType.SPOT), kind_of(job, candidates, market, params)
    if spot is None or spot.work is None or not spot.offer.floor or kind is None:
        return None
    record = cheapest.get((kind.provider, kind.gpu, kind.num_gpus), ())
    offers = sum(each.capacity_type is CapacityType.SPOT for each in candidates)
    is_recorded = len(record) * STEP >= LEAST_PLAYED
    if not is_recorded and offers < LEAST_OFFERS:
        return None
    price_now = float(spot.offer.floor)
    dearer = max(price_now / max(record[-LAST_HOUR:]), 1.0) if is_recorded else 1.0
    known = market.outlook.bidders
    bidders = expected_bidders(price_now, pays_bid=kind.pays_bid) if known is None else known
    pressure = measure_pressure(job, now, params)
    work, auction = weigh(Situation(job, market, now, params, pressure, Candidates.of(candidates)), bidders)
    left_h = min(max(MOST_TIMES_WORK * work.work_h, LEAST_PLAYED / HOUR), LONGEST_S / HOUR_S)
    if pressure.slack is not None and not pressure.is_past:
        left_h = pressure.left_s / HOUR_S
    return FloorsQuestion(
        (*(floor * dearer for floor in record), price_now) if is_recorded else (price_now,),
        level_spread=LEVEL_SPREAD if is_recorded else FIRST_SPREAD,
        work=work,
        bidders=bidders,
        limit=kind.limit,
        on_demand_price=None if auction.on_demand == inf else auction.on_demand,
        storage_rate=float(spot.offer.storage_rate(job.spec.disk_gb)),
        pays_bid=kind.pays_bid,
        left_h=left_h,
        estimate_error=left_longer_by(job, params.deadline),
    )
