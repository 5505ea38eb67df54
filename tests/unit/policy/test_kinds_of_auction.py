"""Three kinds of auction by what a market can do: the bid is paid, all pay one price, or the bid is a cap on that."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, ChangeBid, Start
from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import Capabilities
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from autopilot.pricing.rule.bidding import raised_bid, reservation
from tests.builders import (
    HOUR,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_paused_lease,
    a_spec,
    an_instance,
    an_offer,
    at,
    capabilities,
    play,
)
from tests.unit.policy.test_auctioned import bidders

P = Params()
LOW = D("0.300")
PAID = capabilities()
UNIFORM = replace(PAID, bills_at_bid=False)
CAP = replace(UNIFORM, rebid_needs_stop=True, resumes_by_itself=False)
OFFER = an_offer("a", floor=D("0.200"), on_demand_price=D(1))


def seen_by(able: Capabilities, market: Market) -> Market:
    return replace(market, providers={"vastai": ProviderView(able, known=True, credit=None)})


def taken(able: Capabilities, **spec: Any) -> Decimal:
    """What is bid first, $/h, where no table is learnt."""
    (action,) = decide(a_job(spec=a_spec(**spec)), seen_by(able, a_market(OFFER)), START, P).actions
    assert isinstance(action, Acquire)
    return action.bid


def test_where_the_bid_is_paid_it_is_just_above_the_floor_and_else_the_most_that_would_be_paid() -> None:
    assert taken(PAID) == D("0.210")
    assert taken(UNIFORM) == taken(CAP) == D("0.600"), "three times the floor, for all of it is held back"
    assert taken(UNIFORM, max_bid=D("0.400")) == D("0.400")


def test_no_hour_is_paid_that_the_budget_cannot_cover() -> None:
    offer, held_h = an_offer(floor=D("0.200"), on_demand_price=D(1)), 1 + (60 + 300 + 60 + 300) / 3600
    storage = offer.storage_rate(a_spec().disk_gb)
    most = reservation(a_spec(), offer, P, D(3), 4.0)
    assert most == D("0.553")
    assert float(most + storage) * (4 + held_h) + float(storage) * P.budget.tail_h <= 3
    assert reservation(a_spec(), replace(offer, storage_price=D(0)), P, D(3), 4.0) == D("0.576")
    assert reservation(a_spec(), offer, P, None, 4.0) == D("0.600")
    assert reservation(a_spec(), replace(offer, floor=D("0.4")), P, None, 4.0) == D("0.899"), "below on-demand capacity"
    assert reservation(a_spec(max_rate=D("0.5")), offer, P, None, 4.0) == D("0.495")
    assert reservation(a_spec(), replace(offer, on_demand_price=None), P, None, 4.0) is None
    assert taken(UNIFORM, budget=D(1), work_estimate=HOUR) < D("0.5")


def test_a_candidate_is_judged_by_what_it_will_pay() -> None:
    """A machine whose bid is high and whose price is not is no reason to move."""
    job = running(UNIFORM, paid=D("0.200"), bid=D("0.899"))
    market = seen_by(UNIFORM, a_market(an_offer("b", floor=D("0.195"), on_demand_price=D(1))))
    assert decide(job, market, at(7200), P).actions == ()
    dear = running(UNIFORM, paid=D("0.600"), bid=D("0.899"))
    (move,) = decide(dear, market, at(7200), P).actions
    assert isinstance(move, Acquire)
    assert move.reason is Reason.CHEAPER_ELSEWHERE


def running(able: Capabilities, paid: Decimal, bid: Decimal) -> Job:
    """At work for two hours, on a machine that is charged so much, $/h."""
    lease = a_lease(bid=bid, on_demand_price=D(1))
    job = a_job(lease, spec=a_spec(work_estimate=20 * HOUR))
    price = None if able.bills_at_bid else paid
    shown = an_instance(lease, status=InstanceStatus.RUNNING, bid=bid, price=price)
    for second in (30.0, 7170.0):
        job = play(job, e.LeaseObserved(lease.id, shown, at(second)))
    assert job.leases[0].computes_at == paid
    beat = replace(job.leases[0].agent, state=AgentState.RUNNING, boot=1, seen_at=at(7170))
    return replace(job, leases=(replace(job.leases[0], agent=beat),))


def test_what_a_lease_computes_at_is_its_bid_until_its_market_says_another_price() -> None:
    lease = a_lease(bid=D("0.300"))
    assert lease.computes_at == D("0.300")
    job = play(a_job(lease), e.LeaseObserved(lease.id, an_instance(lease, price=D("0.120")), at(30)))
    assert job.leases[0].computes_at == D("0.120")
    stopped = an_instance(lease, status=InstanceStatus.STOPPED)
    assert play(job, e.LeaseObserved(lease.id, stopped, at(60))).leases[0].computes_at == D("0.300")


def paused(to_win: Decimal | None, bid: Decimal = LOW) -> Lease:
    lease = a_paused_lease(bid=bid, on_demand_price=D(1))
    return replace(lease, observed=replace(lease.observed, price_to_win=to_win))


def test_a_limit_that_lost_goes_to_the_top_at_once() -> None:
    lease = paused(D("0.310"))
    assert raised_bid(a_spec(), lease, P) == D("0.341")
    assert raised_bid(a_spec(), lease, P, pays_bid=False) == D("0.899")
    assert raised_bid(a_spec(), paused(D("0.950")), P, pays_bid=False) is None, "that is above any price"
    assert raised_bid(a_spec(), paused(None, D("0.899")), P, pays_bid=False) is None
    assert raised_bid(a_spec(budget=D(5)), lease, P, pays_bid=False) == D("0.341"), "what is bid is held back"
    (raise_,) = decide(a_job(lease), seen_by(UNIFORM, a_market()), at(30), P).actions
    assert raise_ == ChangeBid(lease.id, D("0.899"), Reason.OUTBID)


def test_a_raise_is_weighed_by_the_price_that_it_leads_to() -> None:
    """Elsewhere costs more than what wins here, and less than what is bid here."""
    lease = paused(D("0.310"))
    elsewhere = a_market(an_offer("b", floor=D("0.500"), on_demand_price=D(1)))
    (action,) = decide(a_job(lease), seen_by(UNIFORM, elsewhere), at(30), P).actions
    assert isinstance(action, ChangeBid)


def test_a_machine_that_does_not_come_back_by_itself_is_started_when_its_cap_wins_again() -> None:
    wins, loses = paused(D("0.250"), D("0.899")), paused(D("0.950"), D("0.899"))
    assert decide(a_job(wins), seen_by(CAP, a_market()), at(30), P).actions == (Start(wins.id, Reason.FLOOR_MOVED),)
    assert decide(a_job(wins), seen_by(UNIFORM, a_market()), at(30), P).actions == (), "it comes back by itself"
    assert decide(a_job(loses), seen_by(CAP, a_market()), at(30), P).actions == ()


RUNNING_LOW = (
    replace(
        a_job(
            a_lease(machine_id="a", bid=D("0.201"), on_demand_price=D(1), agent_boot=1),
            spec=a_spec(work_estimate=6 * HOUR, deadline=START + 9 * HOUR),
        ),
        submitted_at=START - 3 * HOUR,
    ),
    replace(a_market(OFFER), outlook=Outlook(bidders=bidders(4.0))),
)
"""A machine at work, whose floor is shown, at a limit that is just above it."""


@pytest.mark.parametrize("able", [UNIFORM, CAP])
def test_the_limit_of_a_machine_that_runs_stays(able: Capabilities) -> None:
    job, market = RUNNING_LOW
    assert decide(job, seen_by(replace(able, shows_held_floors=True), market), at(30), P).actions == ()


@pytest.mark.parametrize("able", [UNIFORM, CAP])
def test_where_the_floor_is_paid_the_bid_at_an_auction_is_the_most_that_would_be_paid(able: Capabilities) -> None:
    job, market = RUNNING_LOW
    bids = []
    for kind in (PAID, able):
        (action,) = decide(replace(job, leases=()), seen_by(kind, market), at(30), P).actions
        assert isinstance(action, Acquire)
        bids.append(action.bid)
    assert bids[0] == D("0.800")
    assert D("0.5") < bids[1] < D("0.9")
