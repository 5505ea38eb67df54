"""At what price: first bids, re-bids, and the ceiling that no bid reaches.

There are three kinds of auction, told apart by what a market can do. Where the bid itself is paid it is kept just above
what wins. Where all pay one price, and the bid is but a limit or a rank, the highest is bid of which every dollar would
be paid: it costs nothing more, and each loss that it spares does.

Never chased: the floor of a machine that we hold, because it echoes our own bid. Offers of our own machines are
therefore left out of the market before the policy sees it.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from autopilot.domain.job import JobSpec
from autopilot.domain.lease import Lease
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.same import Same

REMEMBERED = 4096
"""Prices of offers of which first bids are kept: a job asks for them more than once a tick, and at each tick."""


def bounds(spec: JobSpec, on_demand_price: Decimal | None, params: Params) -> dict[str, Decimal]:
    """What bounds a bid, by the key of the job file or ``on_demand_share``; $/h, in steps of bids."""
    limits = {"max_price": spec.max_bid, "max_hourly": spec.max_hourly}
    if on_demand_price is not None:
        # Below that share, not at it.
        limits["on_demand_share"] = (on_demand_price * params.bids.ceiling_of_on_demand).next_minus()
    unit = params.bids.unit
    return {name: limit.quantize(unit, ROUND_FLOOR) for name, limit in limits.items() if limit is not None}


def ceiling(spec: JobSpec, on_demand_price: Decimal | None, params: Params) -> Decimal | None:
    """The highest bid that makes sense ($/h), or None when nothing bounds it (then no bid is made)."""
    return min(bounds(spec, on_demand_price, params).values(), default=None)


def first_bid(spec: JobSpec, offer: Offer, params: Params) -> Decimal | None:
    """A bid that wins now with some room, below the ceiling; None when the floor leaves no room."""
    return _first_bid(Same(spec), offer.floor, offer.on_demand_price, Same(params))


@lru_cache(REMEMBERED)
def _first_bid(
    spec: Same[JobSpec], floor: Decimal | None, on_demand_price: Decimal | None, params: Same[Params]
) -> Decimal | None:
    limit, bids = ceiling(spec.value, on_demand_price, params.value), params.value.bids
    if floor is None or limit is None:
        return None
    lowest = max(floor.quantize(bids.unit, ROUND_CEILING), bids.least)
    wanted = (floor * bids.markup).quantize(bids.unit, ROUND_CEILING)
    bid = max(min(wanted, limit), bids.least)
    return bid if lowest <= bid <= limit else None


MOST_TIMES = 3
"""A bid that is not paid is no more than so many times what wins now: all of it is held back."""


def reservation(spec: JobSpec, offer: Offer, params: Params, left: Decimal | None, hours: float) -> Decimal | None:
    """The highest bid of which the job would pay every dollar ($/h): its own bounds, and what its budget reaches for.

    ``left``: of its budget, dollars; None: it has none. ``hours``: that it is still to pay for. None: nothing bounds
    it.
    """
    bounding = [ceiling(spec, offer.on_demand_price, params)]
    if bounding[0] is None:
        return None
    if offer.floor:
        bounding.append(offer.floor * MOST_TIMES)
    storage = offer.storage_rate(spec.disk_gb)
    if spec.max_rate is not None:
        bounding.append(spec.max_rate - storage)
    if left is not None:
        stopping_s = params.budget.detect_s + params.budget.save_timeout_s + params.budget.destroy_s
        held_h = params.budget.unwatched_h + (stopping_s + params.budget.settle_s) / 3600
        disks = storage * Decimal(params.budget.tail_h)
        bounding.append((left - disks) / Decimal(hours + held_h) - storage)
    least = min(bound for bound in bounding if bound is not None)
    return least.quantize(params.bids.unit, ROUND_FLOOR)


def raised_bid(
    spec: JobSpec, lease: Lease, params: Params, over: Decimal | None = None, *, pays_bid: bool = True
) -> Decimal | None:
    """The next rung for a lease that was outbid, or None when rungs or ceiling are used up.

    The market shows the winning bid. ``over``: how much more than that is bid, as a factor, if that was learnt. If bids
    are not paid (``pays_bid`` False) and no budget is to be kept to, there is one rung: the ceiling, or
    ``MOST_TIMES`` the winning bid.

    No bid is raised if no bid above ours is known: there is no rival to beat. Nor if the winning bid is above the
    ceiling.
    """
    limit, to_win, unit = ceiling(spec, lease.on_demand_price, params), lease.observed.price_to_win, params.bids.unit
    if limit is None or to_win is None or to_win <= lease.bid or lease.bidding.raises >= params.bids.max_rebids:
        return None
    if to_win.quantize(unit, ROUND_CEILING) > limit:
        return None
    if not pays_bid and spec.budget is None:
        return min(limit, (to_win * MOST_TIMES).quantize(unit, ROUND_FLOOR))
    return min((to_win * (over or params.bids.over_winning)).quantize(unit, ROUND_CEILING), limit)
