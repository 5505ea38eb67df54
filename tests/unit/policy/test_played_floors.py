"""Forecasts by recorded floors: auctions played through under the daemon's decision, the same on every run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autopilot.domain.floors import Bidders, Tally
from autopilot.pricing.auction import played_floors
from autopilot.pricing.auction.choice import HeldNow, WorkLeft
from autopilot.pricing.auction.forecast import forecast_by_floors
from autopilot.pricing.auction.played_floors import FloorsQuestion
from autopilot.pricing.auction.shadows import MARKUPS, LossCosts
from autopilot.pricing.availability.forecast import Forecast

DAY = 144
"""Steps of the record."""


def bidders(lost_per_h: float, floor: float = 0.3) -> Bidders:
    """Who lost so often, whatever the markup."""
    tallies = [Tally(each, held=1e4, losses=1e4 * lost_per_h, dollars=1e4 * each * floor) for each in MARKUPS]
    return Bidders(tuple(tallies), tallies[3])


WORK = WorkLeft(
    left_h=20.0,
    work_h=10.0,
    held_h=0.0,
    unsaved_h=0.0,
    first_step_h=0.4,
    costs=LossCosts(checkpoint_h=1 / 6, again_h=0.05, start_h=1 / 6),
)
CALM = FloorsQuestion(
    floors=(0.3,) * 7 * DAY,
    level_spread=0.11,
    work=WORK,
    bidders=bidders(0.05),
    limit=0.9,
    on_demand_price=1.0,
    storage_rate=0.01,
    pays_bid=True,
    left_h=20.0,
    estimate_error=0.0,
)


def of(asked: FloorsQuestion) -> Forecast:
    return forecast_by_floors(asked, runs=100)


def due_in(left_h: float, asked: FloorsQuestion = CALM, **work: Any) -> FloorsQuestion:
    return replace(asked, work=replace(asked.work, **work)).due_in(left_h)


def test_a_calm_market_costs_the_work_at_its_floor_and_its_level_is_not_sure() -> None:
    found = of(CALM)
    paid = 10.2 * (0.3 * 1.02 + 0.01)
    assert found.p50 == pytest.approx(paid, rel=0.06)
    assert found.p10 < paid < found.p90 < 10.2 * 1.01
    assert found.on_time == 1.0
    assert found.on_demand_cost == pytest.approx((10 + 1 / 6) * 1.01)
    surer = of(replace(CALM, level_spread=0.02))
    assert surer.p90 - surer.p10 < found.p90 - found.p10


def test_what_was_recorded_counts_and_not_the_floor_of_the_moment_alone() -> None:
    by_now, by_record = of(CALM), of(replace(CALM, floors=(0.5,) * 7 * DAY + (0.3,)))
    assert by_record.p50 > 1.4 * by_now.p50


def test_the_oftener_bidders_lost_the_oftener_it_loses_and_the_dearer_it_is() -> None:
    calm, rough = of(CALM), of(replace(CALM, bidders=bidders(1.0)))
    assert calm.preemptions == pytest.approx(10 * 0.06, abs=0.4)
    assert rough.preemptions > 8
    assert rough.mean > 1.03 * calm.mean
    assert rough.done_s is not None
    assert calm.done_s is not None
    assert rough.done_s[1] > calm.done_s[1]


def test_where_nothing_is_below_the_limit_it_is_finished_on_demand_or_not_at_all() -> None:
    dear = replace(CALM, floors=(0.95,) * DAY, level_spread=0.0)
    bought = of(dear)
    assert bought.on_time == 1.0
    assert bought.p50 == pytest.approx(bought.on_demand_cost, rel=0.02)
    never = of(replace(dear, on_demand_price=None))
    assert (never.on_time, never.done_s is None or never.done_s[0] > 20 * 3600) == (0.0, True)


def test_a_dearth_comes_to_the_calmest_market_and_is_over_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast_by_floors.cache_clear()
    spot_alone = due_in(14.0, replace(CALM, on_demand_price=None))
    rare = of(spot_alone).on_time
    forecast_by_floors.cache_clear()
    monkeypatch.setattr(played_floors, "DEARTH_EVERY_H", 12.0)
    often = of(spot_alone).on_time
    forecast_by_floors.cache_clear()
    assert 0.8 < rare < 1.0
    assert often < rare - 0.2


@pytest.mark.slow
def test_the_less_slack_the_dearer_and_an_estimate_that_is_too_low_makes_it_late() -> None:
    by_time = [of(due_in(hours)).mean for hours in (10.5, 11.2, 30)]
    assert [a > b for a, b in pairwise(by_time)] == [True] * 2
    wrong = replace(CALM, estimate_error=0.15)
    unsure = of(due_in(11.0, wrong, held_h=0.5))
    assert 0.5 < unsure.on_time < 0.95
    assert of(due_in(11.9, wrong, held_h=1.5)).on_time > unsure.on_time


@pytest.mark.parametrize("budget", [0.0, 1.0, 3.0, 3.4, 5.0])
def test_no_more_is_spent_than_there_is(budget: float) -> None:
    found = of(replace(CALM, budget=budget))
    assert found.p90 <= budget + 1e-6
    assert found.mean <= budget + 1e-6
    assert found.on_time <= found.finished
    assert found.finished + found.parked == pytest.approx(1.0)


def test_more_money_never_helps_less() -> None:
    odds = [of(replace(CALM, budget=dollars)).on_time for dollars in (1.0, 3.0, 3.3, 4.0, 11.0)]
    assert [b >= a - 0.03 for a, b in pairwise(odds)] == [True] * 4
    assert (odds[0], odds[-1]) == (0.0, 1.0)
    assert 0.05 < odds[2] < 0.95


def test_a_machine_that_works_already_saves_the_start() -> None:
    bought = of(due_in(10.8, held=HeldNow.ON_DEMAND))
    assert bought.p50 == pytest.approx(10 * 1.01, rel=0.01)
    running = replace(due_in(20.0, held=HeldNow.RUNNING, machine="a", bid=0.31), level_spread=0.0)
    assert of(running).p10 == pytest.approx(10 * 0.32, rel=0.02)


def test_a_job_on_demand_comes_back_to_spot_where_the_decision_would() -> None:
    held = due_in(20.0, held=HeldNow.ON_DEMAND)
    assert of(held).p90 < 0.6 * of(held.due_in(10.8)).p10


def test_where_all_pay_the_floor_the_bid_is_not_what_it_costs() -> None:
    floors = of(replace(CALM, pays_bid=False, level_spread=0.0))
    assert floors.p50 == pytest.approx(10.2 * 0.31, rel=0.03)


@pytest.mark.slow
def test_without_a_deadline_nothing_is_bought_on_demand() -> None:
    endless = replace(CALM, floors=(0.95,) * DAY + (0.3,), level_spread=0.0, work=replace(WORK, left_h=float("inf")))
    assert of(replace(endless, left_h=60.0)).p50 < of(due_in(20.0, endless)).on_demand_cost


def test_equal_questions_get_equal_answers() -> None:
    forecast_by_floors.cache_clear()
    first = of(CALM)
    forecast_by_floors.cache_clear()
    assert of(CALM) == first
    assert forecast_by_floors(CALM, runs=100, seed=1) != first
