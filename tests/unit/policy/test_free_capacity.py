"""Capacity that costs nothing: it is taken at once, by each of the ways in which options are priced, and planned so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from autopilot.domain.actions import Acquire
from autopilot.domain.floors import Bidders, Tally
from autopilot.domain.lease import Slot
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.planning.plan import plan
from autopilot.policy.decide import decide
from autopilot.pricing.availability.phases import first_belief
from autopilot.pricing.availability.prior import PHASES
from autopilot.pricing.availability.shape import shape_of
from autopilot.pricing.rule.cost import price_candidates
from tests.builders import HOUR, START, D, a_job, a_lease, a_market, a_spec, an_offer, capabilities

P = Params()
OWN = an_offer("box/0", provider="own", floor=None, on_demand_price=D(0), storage_price=D(0))
SPOT = an_offer("spare", floor=D("0.2"))
CALM = Tally(1.05, held=1e4, dollars=2100.0)
BIDDERS = Bidders((Tally(1.1, held=1e4, dollars=2200.0),), CALM)


def market(*offers: Offer, outlook: Outlook | None = None) -> Market:
    firm = capabilities(spot=False, can_rebid=False, pauses_when_outbid=False, reports_floor=False, bills_at_bid=False)
    made = a_market(*offers)
    views = {**made.providers, "own": ProviderView(firm, True, None)}
    return replace(made, providers=views, outlook=outlook or Outlook())


@pytest.mark.parametrize("offers", [(OWN,), (OWN, SPOT)], ids=["alone", "beside spot"])
@pytest.mark.parametrize("deadline", [{}, {"deadline": START + 40 * HOUR}], ids=["no deadline", "with time"])
@pytest.mark.parametrize(
    "outlook",
    [Outlook(), Outlook(bidders=BIDDERS), Outlook(belief=first_belief(PHASES, True))],
    ids=["rule", "auction", "table"],
)
def test_it_is_taken_at_once(offers: tuple[Offer, ...], deadline: dict[str, Any], outlook: Outlook) -> None:
    job = a_job(spec=a_spec(work_estimate=4 * HOUR, budget=D(1), **deadline))
    seen = market(*offers, outlook=outlook)
    shape = shape_of(job, price_candidates(job, seen, offers, P), seen.outlook, START, PHASES, P)
    assert shape is None, "there is nothing to save by waiting"
    (action,) = decide(job, seen, START, P).actions
    assert isinstance(action, Acquire)
    assert (action.offer.provider, action.capacity_type, action.bid) == ("own", CapacityType.ON_DEMAND, D(0))


@pytest.mark.parametrize("deadline", [{}, {"deadline": START + 40 * HOUR}], ids=["no deadline", "with time"])
@pytest.mark.parametrize(
    "outlook",
    [Outlook(), Outlook(bidders=BIDDERS), Outlook(belief=first_belief(PHASES, True))],
    ids=["rule", "auction", "table"],
)
def test_a_job_on_a_rented_machine_goes_home_to_it(deadline: dict[str, Any], outlook: Outlook) -> None:
    since = START - 5 * HOUR
    rented = a_lease(bid=D("0.22"), on_demand_price=D("0.6"), acquired_at=since, intended_at=since, running_since=since)
    job = a_job(rented, spec=a_spec(work_estimate=10 * HOUR, budget=D(5), **deadline))
    (action,) = decide(job, market(OWN, SPOT, outlook=outlook), START, P).actions
    assert isinstance(action, Acquire)
    assert (action.offer.provider, action.slot, action.reason) == ("own", Slot.NEXT, Reason.CHEAPER_ELSEWHERE)


@pytest.mark.parametrize("outlook", [Outlook(), Outlook(bidders=BIDDERS)], ids=["rule", "auction"])
def test_it_is_not_left_for_spot(outlook: Outlook) -> None:
    since = START - 5 * HOUR
    free: dict[str, Any] = {"bid": D(0), "storage_rate": D(0), "on_demand_price": D(0), "provider": "own"}
    held = a_lease(
        capacity_type=CapacityType.ON_DEMAND, acquired_at=since, intended_at=since, running_since=since, **free
    )
    job = a_job(held, spec=a_spec(work_estimate=10 * HOUR, budget=D(1), deadline=START + 60 * HOUR))
    assert decide(job, market(SPOT, outlook=outlook), START, P).actions == ()


@pytest.mark.parametrize("offers", [(OWN,), (OWN, SPOT)], ids=["alone", "beside spot"])
@pytest.mark.parametrize("deadline", [{}, {"deadline": START + 40 * HOUR}], ids=["no deadline", "with time"])
def test_a_plan_says_that_it_costs_nothing(offers: tuple[Offer, ...], deadline: dict[str, Any]) -> None:
    job = a_job(spec=a_spec(work_estimate=4 * HOUR, budget=D(1), **deadline))
    body = json.loads(json.dumps(plan(job, market(*offers), START, P, 0.8).answer))
    assert (body["verdict"] in ("fine", None), body["refusal"]) == (True, None)
    assert D(body["forecast"]["p90"]) == 0
    assert D(body["offers"][0]["cost"]) == 0
