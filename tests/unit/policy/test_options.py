"""The ways to go on, priced by a table: what each costs, and which are closed by the deadline or the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.policy.eligibility import eligible
from autopilot.policy.options import Option, Options, price_options
from autopilot.policy.situation import Situation
from autopilot.pricing.availability import value
from autopilot.pricing.pressure import measure_pressure
from autopilot.pricing.rule.candidates import Candidates
from autopilot.pricing.rule.cost import price_candidates
from tests.builders import START, D, a_market, an_offer
from tests.unit.policy.table_market import (
    PHASES,
    SHAPE,
    SPOT,
    WORK,
    P,
    decision,
    hours,
    job_due,
    loading_on_spot,
    market,
    notes_of_ways,
    on_demand,
    on_spot,
)

DUE = 42
SLACK = DUE - WORK


def priced(job: Job, seen: Market, params: Params = P) -> Options:
    candidates = price_candidates(job, seen, eligible(job, seen, START, params), params)
    pressure = measure_pressure(job, START, params)
    return price_options(Situation(job, seen, START, params, pressure, Candidates.of(candidates)))


def cost(way: Option | None) -> float:
    assert way is not None
    assert way.cost is not None
    return way.cost


def test_from_nothing_each_way_costs_what_the_table_says() -> None:
    found = priced(job_due(DUE), market(is_on=True))
    assert found.by_table
    assert [way.name for way in found] == ["wait", "spot", "on_demand"]
    assert cost(found.idle) == pytest.approx(hours(value.NOTHING, DUE, SLACK, is_on=True))
    assert cost(found.spot) == pytest.approx(hours(value.SPOT, DUE, SLACK - 1, is_on=True))
    assert cost(found.on_demand) == pytest.approx(hours(value.ON_DEMAND, DUE, SLACK - 1, is_on=True))
    assert all(way.is_open for way in found)


def test_without_spot_there_are_two_ways_read_as_off() -> None:
    found = priced(job_due(DUE), market(is_on=False))
    assert found.spot is None
    assert cost(found.idle) == pytest.approx(hours(value.NOTHING, DUE, SLACK, is_on=False))
    assert cost(found.on_demand) == pytest.approx(hours(value.ON_DEMAND, DUE, SLACK - 1, is_on=False))


@pytest.mark.parametrize(("lease", "mode"), [(on_spot(), value.SPOT), (on_demand(), value.ON_DEMAND)])
def test_on_a_machine_at_work_staying_needs_no_start(lease: Lease, mode: int) -> None:
    found = priced(job_due(DUE, lease), market(is_on=True))
    assert found.idle.name == "stay"
    assert cost(found.idle) == pytest.approx(hours(mode, DUE, SLACK, is_on=True))


@pytest.mark.parametrize(("steps_ago", "pending"), [(0, 1), (0.5, 0.5), (1, 0), (9, 0)])
def test_a_machine_that_loads_still_has_its_start_to_serve(steps_ago: float, pending: float) -> None:
    found = priced(job_due(DUE, loading_on_spot(steps_ago)), market(is_on=True))
    assert cost(found.idle) == pytest.approx(hours(value.SPOT, DUE, SLACK - pending, is_on=True))


def test_prices_scale_with_on_demand() -> None:
    twice = an_offer("dedicated", floor=None, on_demand_price=D(2), storage_price=D(0))
    found = priced(job_due(DUE), replace(market(is_on=True), offers=(replace(SPOT, floor=D("0.4")), twice)))
    assert cost(found.idle) == pytest.approx(2 * hours(value.NOTHING, DUE, SLACK, is_on=True))
    assert cost(found.spot) == pytest.approx(2 * hours(value.SPOT, DUE, SLACK - 1, is_on=True))
    assert cost(found.on_demand) == pytest.approx(2 * hours(value.ON_DEMAND, DUE, SLACK - 1, is_on=True))


@pytest.mark.parametrize(("rate", "premium"), [("0.2", 0.0), ("0.3", 0.1), ("0.15", -0.05)])
def test_a_machine_dearer_than_the_best_offer_costs_its_premium_for_all_the_work(rate: str, premium: float) -> None:
    found = priced(job_due(DUE, on_spot(bid=D(rate))), market(is_on=True))
    assert cost(found.idle) == pytest.approx(hours(value.SPOT, DUE, SLACK, is_on=True) + premium * 4)


def test_the_premium_is_paid_until_the_machine_is_lost() -> None:
    shape = replace(SHAPE, hazard_per_h=0.5)
    seen = market(is_on=True, shape=shape)
    table = value.cost_to_go(shape)
    weights = table.clusters.weights(seen.outlook.belief, is_on=True)
    expected = table.hours(value.SPOT, DUE * 600, SLACK * 600, weights) + 0.3 * 2
    assert cost(priced(job_due(DUE, on_spot(bid=D("0.5"))), seen).idle) == pytest.approx(expected)


def test_with_nothing_to_compare_there_is_no_premium() -> None:
    found = priced(job_due(DUE, on_spot(bid=D("0.5"))), market(is_on=False))
    assert cost(found.idle) == pytest.approx(hours(value.SPOT, DUE, SLACK, is_on=True))


def test_where_on_demand_is_not_offered_its_price_follows_from_the_ratio() -> None:
    seen = replace(market(is_on=True), offers=(SPOT,))
    found = priced(job_due(DUE), seen)
    assert found.on_demand is None
    assert cost(found.idle) == pytest.approx(hours(value.NOTHING, DUE, SLACK, is_on=True))


@pytest.mark.parametrize(
    "outlook", [Outlook(), Outlook(shape=SHAPE), Outlook(belief=(1.0, 0.0))], ids=["nothing", "no belief", "no table"]
)
def test_without_a_table_or_a_belief_a_way_costs_what_it_takes_to_finish_there(outlook: Outlook) -> None:
    found = priced(job_due(DUE), replace(market(is_on=True), outlook=outlook))
    assert not found.by_table
    assert found.idle.cost is None
    assert (cost(found.spot), cost(found.on_demand)) == pytest.approx((0.2 * 25 / 6, 25 / 6))


# The deadline. A step that brings nothing must leave on-demand its start and all the work.


@pytest.mark.parametrize(("due", "refused"), [(WORK + 2, ""), (WORK + 1.999, "deadline"), (WORK + 1, "deadline")])
def test_waiting_and_a_start_on_spot_are_closed_exactly_where_on_demand_would_be_late(due: float, refused: str) -> None:
    found = priced(job_due(due), market(is_on=True))
    assert found.spot is not None
    assert found.on_demand is not None
    assert (found.idle.refused, found.spot.refused, found.on_demand.refused) == (refused, refused, "")


@pytest.mark.parametrize(("due", "refused"), [(WORK + 1, ""), (WORK + 0.999, "deadline")])
def test_spot_at_work_is_ridden_one_step_further(due: float, refused: str) -> None:
    """What it does in the step need not be done after it."""
    assert priced(job_due(due, on_spot()), market(is_on=True)).idle.refused == refused


@pytest.mark.parametrize(
    ("steps_ago", "due", "refused"),
    [(1, WORK + 1, ""), (0.5, WORK + 1, "deadline"), (0.5, WORK + 2, ""), (0, WORK + 2, ""), (0, WORK + 1, "deadline")],
)
def test_what_a_loading_machine_has_still_to_serve_is_no_work_done(steps_ago: float, due: float, refused: str) -> None:
    assert priced(job_due(due, loading_on_spot(steps_ago)), market(is_on=True)).idle.refused == refused


def test_on_demand_at_work_is_never_closed_by_the_deadline() -> None:
    assert priced(job_due(WORK - 3, on_demand()), market(is_on=True)).idle.is_open


def test_the_guard_counts_an_error_of_the_estimate_what_a_loss_costs_and_offers_that_vanish() -> None:
    def least_due(**changes: float) -> int:
        params = P.tune(changes)
        seen = market(is_on=True)
        job_refused = [priced(job_due(due), seen, params).idle.refused for due in range(WORK, 60)]
        return WORK + job_refused.index("")

    assert least_due() == WORK + 2
    assert least_due(estimate_error=0.25, held_share=1.0) == WORK + 2 + 6
    assert least_due(detect_s=1800) == WORK + 2 + 3
    assert least_due(on_demand_margin_s=601) == WORK + 2 + 2, "whole steps"


def test_a_job_that_may_not_fall_back_is_never_pressed() -> None:
    job = job_due(WORK + 1, fall_back=False)
    found = priced(job, replace(market(is_on=True), outlook=Outlook()))
    assert {way.name: way.refused for way in found} == {"wait": "", "spot": "", "on_demand": "not_needed"}


# The budget.


@pytest.mark.parametrize(("budget", "refused"), [("0.9334", ""), ("0.9333", "budget")])
def test_on_demand_is_closed_when_the_rest_could_not_be_paid_even_at_spot_prices(budget: str, refused: str) -> None:
    """One step on demand and 23 at a fifth of it: (1 + 23 × 0.2) / 6 = $0.9333…."""
    found = priced(job_due(DUE, budget=D(budget)), market(is_on=False))
    assert found.on_demand is not None
    assert found.on_demand.refused == refused


@pytest.mark.parametrize(("budget", "refused"), [("4.17", "deadline"), ("4.16", "")])
def test_the_guard_gives_way_where_on_demand_for_the_rest_could_not_be_paid(budget: str, refused: str) -> None:
    """A start and 24 steps at $1/h are 25/6 = $4.1667."""
    found = priced(job_due(WORK + 1, budget=D(budget)), market(is_on=True))
    assert found.spot is not None
    assert (found.idle.refused, found.spot.refused) == (refused, refused)


def test_a_reserve_that_the_budget_does_not_cover_closes_a_way() -> None:
    params = replace(P, budget=replace(P.budget, settle_s=3600.0))
    made = priced(job_due(DUE, budget=D("0.19")), market(is_on=True), params)
    assert [way.refused for way in made] == ["", "budget", "budget"]


# The notes.


def test_the_notes_hold_what_each_way_would_have_cost() -> None:
    job, seen = job_due(WORK + 1), market(is_on=True)
    made = priced(job, seen)
    told = notes_of_ways(decision(job, seen))
    assert set(told) == {"wait", "spot", "on_demand"}
    for way in made:
        assert float(told[way.name]["cost"]) == pytest.approx(cost(way), abs=5e-5)
        assert told[way.name]["refused"] == (way.refused or None)
    assert [told[name]["chosen"] for name in ("wait", "spot", "on_demand")] == [0, 0, 1]
    assert (told["spot"]["bid"], told["spot"]["machine_id"]) == (D("0.2"), "spare")
    assert (told["on_demand"]["bid"], told["on_demand"]["machine_id"]) == (D(1), "dedicated")
    assert told["wait"]["machine_id"] is None


def test_the_notes_of_a_machine_that_is_kept_say_that_staying_was_chosen() -> None:
    told = notes_of_ways(decision(job_due(DUE, on_spot()), market(is_on=True)))
    assert {name: numbers["chosen"] for name, numbers in told.items()} == {"stay": 1, "spot": 0, "on_demand": 0}
    assert told["stay"]["cost"] < told["on_demand"]["cost"]


def test_a_market_without_any_offer_has_nothing_to_price() -> None:
    seen = replace(a_market(), outlook=Outlook(shape=SHAPE, belief=(0.0, 1.0)))
    assert len(PHASES.on) == len(seen.outlook.belief)
    assert notes_of_ways(decision(job_due(DUE), seen)) == {}
