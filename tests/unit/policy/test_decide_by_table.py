"""Decisions by a table of costs to go: waiting, escalating, coming back, and what the budget makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autopilot.domain.actions import Acquire
from autopilot.domain.job import SpotPolicy
from autopilot.domain.lease import Slot
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from tests.builders import START, D
from tests.unit.policy.table_market import (
    ON_DEMAND,
    SPOT,
    WORK,
    P,
    decision,
    job_due,
    loading_on_spot,
    market,
    notes_of_ways,
    on_demand,
    on_spot,
    taken,
)

DEDICATED = [CapacityType.ON_DEMAND]
SPARE = [CapacityType.SPOT]


# From nothing.


def test_it_waits_while_waiting_is_cheapest() -> None:
    off = market(is_on=False)
    for due in range(WORK + 5, WORK + 36):
        assert taken(job_due(due), off) == [], f"{due} steps"
    (bought,) = decision(job_due(WORK + 2), off).actions
    # A start on spot would be too late by then: a bit of on-demand now keeps the slack for it.
    assert bought == Acquire(Slot.MAIN, ON_DEMAND, CapacityType.ON_DEMAND, D(1), Reason.CHEAPEST)


def test_spot_that_no_market_has_is_not_waited_for() -> None:
    off = market(is_on=False)
    view = off.providers["vastai"]
    without = replace(view, capabilities=replace(view.capabilities, spot=False, spot_note="withdrawn"))
    off = replace(off, providers={"vastai": without})
    for due in range(WORK + 5, WORK + 36):
        found = decision(job_due(due), off)
        assert [action.capacity_type for action in found.actions if isinstance(action, Acquire)] == DEDICATED
        (said,) = (note for note in found.notes if note.topic == "no_spot")
        assert dict(said.numbers) == {"provider": "vastai", "found": "withdrawn"}


@pytest.mark.parametrize(("due", "bought"), [(WORK + 8, []), (WORK + 7.99, DEDICATED), (WORK + 6, DEDICATED)])
def test_the_guard_ends_a_wait_that_would_still_be_the_cheapest(due: float, bought: list[CapacityType]) -> None:
    """The estimate may be a quarter, six steps, too low."""
    params = P.tune({"estimate_error": 0.25, "held_share": 1.0})
    found = decide(job_due(due), market(is_on=False), START, params)
    told = notes_of_ways(found)
    assert told["wait"]["cost"] < told["on_demand"]["cost"]
    assert [action.capacity_type for action in found.actions if isinstance(action, Acquire)] == bought
    assert all(isinstance(action, Acquire) and action.reason is Reason.DEADLINE for action in found.actions)


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("due", range(WORK + 1, WORK + 8))
def test_the_cheapest_open_way_is_taken(due: int, is_on: bool) -> None:
    told = notes_of_ways(decision(job_due(due), market(is_on=is_on)))
    cheapest = min((numbers["cost"], name) for name, numbers in told.items() if not numbers["refused"])
    assert [name for name, numbers in told.items() if numbers["chosen"]] == [cheapest[1]]


def test_spot_is_taken_as_soon_as_it_is_there() -> None:
    (bought,) = decision(job_due(42), market(is_on=True)).actions
    assert bought == Acquire(Slot.MAIN, SPOT, CapacityType.SPOT, D("0.2"), Reason.CHEAPEST)


def test_spot_is_not_begun_when_one_step_of_it_could_cost_the_deadline() -> None:
    assert taken(job_due(WORK + 3), market(is_on=True)) == SPARE
    assert taken(job_due(WORK + 1), market(is_on=True)) == DEDICATED


def test_waiting_is_no_way_when_spot_costs_as_much_as_on_demand() -> None:
    off = market(is_on=False)
    shape = off.outlook.shape
    assert shape is not None
    same_price = replace(off, outlook=replace(off.outlook, shape=replace(shape, spot_ratio=1.0)))
    # Nothing is lost by waiting either: one step later, at the latest, on-demand is as cheap as now.
    told = notes_of_ways(decision(job_due(30), same_price))
    assert told["on_demand"]["cost"] <= told["wait"]["cost"]


def test_late_already_on_demand_is_still_the_least_late() -> None:
    assert taken(job_due(WORK - 5), market(is_on=True)) == DEDICATED
    assert taken(job_due(WORK - 5), market(is_on=False)) == DEDICATED


def test_only_spot_for_a_job_that_allows_nothing_else() -> None:
    on = market(is_on=True)
    assert taken(job_due(WORK + 1, spot_policy=SpotPolicy.SPOT), on) == SPARE, "late is worse than risky"


def test_a_job_that_never_falls_back_rides_spot_past_the_guard() -> None:
    assert taken(job_due(WORK + 1, on_spot(), fall_back=False), market(is_on=True)) == []
    assert taken(job_due(WORK + 0.5, on_spot(), fall_back=True), market(is_on=True)) == DEDICATED


# On a machine.


def test_spot_at_work_is_ridden_until_the_last_safe_step() -> None:
    on = market(is_on=True)
    for due in (WORK + 1, WORK + 2, WORK + 9, WORK + 30):
        assert taken(job_due(due, on_spot()), on) == [], f"{due} steps"
    (moved,) = decision(job_due(WORK + 0.9, on_spot()), on).actions
    assert moved == Acquire(Slot.NEXT, ON_DEMAND, CapacityType.ON_DEMAND, D(1), Reason.DEADLINE)


def test_a_machine_that_loads_is_given_up_for_on_demand_a_step_sooner() -> None:
    on = market(is_on=True)
    assert taken(job_due(WORK + 2, loading_on_spot(0)), on) == []
    assert taken(job_due(WORK + 1.5, loading_on_spot(0)), on) == DEDICATED
    assert taken(job_due(WORK + 1.5, loading_on_spot(1)), on) == [], "its start is served: it will work now"


def test_with_no_on_demand_machine_to_be_had_it_stays_on_spot() -> None:
    only_spot = replace(market(is_on=True), offers=(SPOT,))
    assert taken(job_due(WORK, on_spot()), only_spot) == []


def test_it_comes_back_from_on_demand_when_the_slack_allows_the_round_trip() -> None:
    on = market(is_on=True)
    (moved,) = decision(job_due(WORK + 10, on_demand()), on).actions
    assert moved == Acquire(Slot.NEXT, SPOT, CapacityType.SPOT, D("0.2"), Reason.CHEAPER_ELSEWHERE)
    # Over and back: a start on spot that may be lost at once, and a start on demand.
    assert taken(job_due(WORK + 2, on_demand()), on) == SPARE
    assert taken(job_due(WORK + 1.9, on_demand()), on) == []
    assert notes_of_ways(decision(job_due(WORK + 1.9, on_demand()), on))["spot"]["refused"] == "deadline"


def test_it_does_not_come_back_for_a_last_bit_of_work_that_the_start_would_outlast() -> None:
    assert taken(job_due(30, on_demand(), work=0.2), market(is_on=True)) == []
    assert taken(job_due(30, on_demand(), work=12), market(is_on=True)) == SPARE


def test_on_demand_is_kept_while_spot_is_gone() -> None:
    assert taken(job_due(WORK + 10, on_demand()), market(is_on=False)) == []


# Budgets.


@pytest.mark.parametrize(("budget", "bought"), [("5", DEDICATED), ("0.93", [])])
def test_on_demand_is_not_bought_with_the_money_that_spot_will_need(budget: str, bought: list[CapacityType]) -> None:
    """$0.93 pays for the work at the spot price with little to spare, and for an hour of on-demand."""
    assert taken(job_due(WORK + 1, budget=D(budget)), market(is_on=False)) == bought


def test_spot_is_ridden_past_the_guard_when_on_demand_for_the_rest_cannot_be_paid() -> None:
    on = market(is_on=True)
    assert taken(job_due(WORK, on_spot(), budget=D("5")), on) == DEDICATED
    assert taken(job_due(WORK, on_spot(), budget=D("3")), on) == []


def test_a_budget_that_does_not_bind_changes_nothing() -> None:
    for is_on in (True, False):
        for due in (WORK + 1, WORK + 3, WORK + 12):
            rich, free = job_due(due, budget=D(100)), job_due(due)
            assert decision(rich, market(is_on=is_on)).actions == decision(free, market(is_on=is_on)).actions
