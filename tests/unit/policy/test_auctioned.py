"""BidRules priced as an auction, as actions: within every limit of the job, even if the table would pay more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.actions import Acquire, ChangeBid
from autopilot.domain.floors import AuctionShape
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Auction, BidRules, Params
from autopilot.domain.reasons import Reason
from autopilot.policy.auctioned import wait_share
from autopilot.policy.decide import decide
from autopilot.pricing.auction.floors import FloorFit, estimate
from autopilot.pricing.pressure import measure_pressure
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer

FLOOR = D("0.2")
JUMPY = [0.2, 0.2, 0.3, 0.36, 0.25] * 60
SHAPE = AuctionShape(
    estimate({"a": JUMPY, "b": JUMPY[2:] + JUMPY[:2]}, 300.0, 1.0, FloorFit()),
    longest_work_s=8 * 3600,
    on_demand_price=1.0,
    storage_rate=0.002,
    ceiling=0.9,
    bills_at_bid=True,
    migrate_s=420,
    resume_s=60,
    checkpoint_s=600,
    reserve_s=600,
)
EAGER = {"wait_margin": 10.0, "wait_slack_h": 100.0, "wait_margin_shown": 10.0}
"""It never waits for a better price."""
OFFER = an_offer("a", floor=FLOOR, on_demand_price=D(1))


def bid(params: Params | None = None, **limits: Any) -> tuple[Decimal, Decimal]:
    """What is bid on the only machine, and what its disk costs, $/h."""
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + 9 * HOUR, **limits)
    market = replace(a_market(OFFER), outlook=Outlook(auction=SHAPE))
    job = replace(a_job(spec=spec), submitted_at=START - 3 * HOUR)
    (action,) = decide(job, market, START, (params or Params()).tune(EAGER)).actions
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.SPOT
    return action.bid, OFFER.storage_rate(spec.disk_gb)


def test_a_bid_keeps_a_distance_from_the_floor() -> None:
    rate, _ = bid(Params(auction=Auction(least_markup=D("1.5")), bids=BidRules(markup=D("1.5"))))
    assert rate >= FLOOR * D("1.5")


@pytest.mark.parametrize("limit", [D("0.24"), D("0.25")])
def test_no_bid_and_disk_together_are_above_what_the_job_may_cost_an_hour(limit: Decimal) -> None:
    distant = Params(auction=Auction(least_markup=D("1.3")))
    assert bid(distant)[0] > limit, "without it more would be bid"
    rate, storage = bid(distant, max_rate=limit)
    assert rate + storage <= limit


@pytest.mark.parametrize(("is_shown", "waited"), [(False, [0.1, 0.05, 0.0, 0.0]), (True, [0.04, 0.03, 0.02, 0.0])])
def test_the_less_slack_is_left_the_more_must_waiting_promise(is_shown: bool, waited: list[float]) -> None:
    """By its hours; where all floors are shown by the share of it that is used up, of five hours at six of work."""
    params = Params(auction=Auction(wait_margin=0.15, wait_slack_h=3.0, wait_margin_shown=0.05 / 1.2))
    shares = []
    for slack_h in (1, 2, 3, 5):
        spec = a_spec(work_estimate=6 * HOUR, deadline=START + (6 + slack_h) * HOUR)
        job = replace(a_job(spec=spec), submitted_at=START - (5 - slack_h) * HOUR)
        shape = replace(SHAPE, shows_running=is_shown)
        shares.append(wait_share(job, measure_pressure(job, START, params), shape, params))
    assert shares == pytest.approx(waited)


@pytest.mark.parametrize(("minutes", "is_shown", "moves"), [(10, False, 0), (40, False, 1), (10, True, 1)])
def test_a_machine_that_has_just_begun_is_not_left_for_a_price(minutes: int, is_shown: bool, moves: int) -> None:
    """Unless its own floor is seen to move."""
    since = START - timedelta(minutes=minutes)
    held = a_lease(
        machine_id="held",
        bid=D("0.85"),
        on_demand_price=D(1),
        acquired_at=since,
        intended_at=since,
        running_since=since,
    )
    shape = replace(SHAPE, shows_running=is_shown)
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + 9 * HOUR)
    offers = (OFFER, an_offer("held", floor=D("0.84") if is_shown else None, on_demand_price=D(1)))
    market = replace(a_market(*offers), outlook=Outlook(auction=shape))
    job = replace(a_job(held, spec=spec), submitted_at=START - 3 * HOUR)
    actions = decide(job, market, START, Params().tune(EAGER)).actions
    assert sum(isinstance(action, Acquire) for action in actions) == moves


def test_no_bid_is_above_the_highest_that_the_job_allows() -> None:
    assert bid(Params(auction=Auction(least_markup=D("1.3"))), max_bid=D("0.24"))[0] <= D("0.24")


@pytest.mark.parametrize(
    ("changed", "least_markup", "bid"),
    [
        (None, "1.02", "0.205"),  # 0.204 and a trifle, rounded up
        (2 * HOUR, "1.02", "0.205"),
        (timedelta(minutes=119), "1.02", None),
        (2 * HOUR, "1.2", "0.240"),
    ],
)
def test_a_dear_bid_is_lowered_unseen_but_not_too_often(
    changed: timedelta | None, least_markup: str, bid: str | None
) -> None:
    since = START - 3 * HOUR
    held = a_lease(
        machine_id="a",
        bid=D("0.37"),
        on_demand_price=D(1),
        acquired_at=since,
        intended_at=since,
        running_since=since,
        bid_changed_at=None if changed is None else START - changed,
    )
    spec = a_spec(work_estimate=6 * HOUR, deadline=START + 11 * HOUR)
    offers = (an_offer("a", floor=None, on_demand_price=D(1)),)
    market = replace(a_market(*offers), outlook=Outlook(auction=replace(SHAPE, shows_running=False)))
    job = replace(a_job(held, spec=spec), submitted_at=since)
    actions = decide(
        job, market, START, Params(auction=Auction(least_markup=D(least_markup)), bids=BidRules(markup=D("1.5")))
    ).actions
    assert actions == (() if bid is None else (ChangeBid(held.id, D(bid), Reason.FLOOR_MOVED),))
