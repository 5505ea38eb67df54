"""Forecasts by recorded floors: auctions played through, the same on every run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from autopilot.pricing.auction import played_floors
from autopilot.pricing.auction.forecast import forecast_by_floors
from autopilot.pricing.auction.played_floors import FloorsQuestion
from autopilot.pricing.availability.forecast import Forecast
from autopilot.pricing.availability.value import ON_DEMAND, SPOT

H = 3600.0
DAY = 144
"""Steps of the record."""
CALM = FloorsQuestion(
    floors=(0.3,) * 7 * DAY,
    level_spread=0.11,
    ceiling=0.9,
    markup=1.04,
    on_demand_price=1.0,
    storage_rate=0.01,
    left_s=20 * H,
    work_s=10 * H,
    estimate_error=0.0,
    held_s=0.0,
    setup_s=600.0,
    lost_s=300.0,
    guard_s=2400.0,
    waits=True,
)
MOODY = (0.3,) * 36 + (0.6,) * 36
"""Half a day calm, half a day dear, from the calm on."""


def of(asked: FloorsQuestion) -> Forecast:
    return forecast_by_floors(asked, runs=300)


def test_a_calm_market_costs_the_work_at_its_floor_and_its_level_is_not_sure() -> None:
    found = of(CALM)
    paid = 10.2 * (0.3 * 1.04 + 0.01)
    assert found.p50 == pytest.approx(paid, rel=0.06)
    assert found.p10 < paid < found.p90 < 10.2 * 1.01
    assert found.on_time == 1.0
    assert found.on_demand_cost == pytest.approx((10 + 1 / 6) * 1.01)
    surer = of(replace(CALM, level_spread=0.02))
    assert surer.p90 - surer.p10 < found.p90 - found.p10


def test_what_was_recorded_counts_and_not_the_floor_of_the_moment_alone() -> None:
    by_now, by_record = of(CALM), of(replace(CALM, floors=(0.5,) * 7 * DAY + (0.3,)))
    assert by_record.p50 > 1.4 * by_now.p50


def test_with_slack_it_waits_for_cheaper_hours_and_is_done_later() -> None:
    asked = replace(CALM, floors=MOODY * 7, left_s=40 * H)
    patient, hasty = of(asked), of(replace(asked, waits=False))
    assert patient.mean < 0.95 * hasty.mean
    assert patient.on_time == hasty.on_time == 1.0
    assert patient.done_s is not None
    assert hasty.done_s is not None
    assert patient.done_s[2] > hasty.done_s[2] + H


def test_where_nothing_is_below_the_ceiling_it_is_finished_on_demand_or_not_at_all() -> None:
    dear = replace(CALM, floors=(0.95,) * DAY, level_spread=0.0)
    bought = of(dear)
    assert bought.on_time == 1.0
    assert bought.p50 == pytest.approx(bought.on_demand_cost, rel=0.02)
    never = of(replace(dear, on_demand_price=None))
    assert (never.on_time, never.done_s is None or never.done_s[0] > 20 * H) == (0.0, True)


def test_a_dearth_comes_to_the_calmest_market_and_is_over_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast_by_floors.cache_clear()
    spot_alone = replace(CALM, on_demand_price=None, left_s=14 * H)
    rare = of(spot_alone).on_time
    forecast_by_floors.cache_clear()
    monkeypatch.setattr(played_floors, "DEARTH_EVERY_H", 12.0)
    often = of(spot_alone).on_time
    forecast_by_floors.cache_clear()
    assert 0.8 < rare < 1.0
    assert often < rare - 0.2


def test_the_less_slack_the_dearer_and_an_estimate_that_is_too_low_makes_it_late() -> None:
    by_time = [of(replace(CALM, left_s=hours * H)).mean for hours in (10.5, 11.5, 14, 30)]
    assert [a > b for a, b in pairwise(by_time)] == [True] * 3
    unsure = of(replace(CALM, left_s=11 * H, estimate_error=0.15, held_s=0.5 * H))
    assert 0.5 < unsure.on_time < 0.95
    assert of(replace(CALM, left_s=11.9 * H, estimate_error=0.15, held_s=1.5 * H)).on_time > unsure.on_time


@pytest.mark.parametrize("budget", [0.0, 1.0, 3.0, 3.4, 5.0])
def test_no_more_is_spent_than_there_is(budget: float) -> None:
    found = of(replace(CALM, budget=budget))
    assert found.p90 <= budget + 1e-6
    assert found.mean <= budget + 1e-6
    assert found.on_time <= found.finished
    assert found.finished + found.parked == pytest.approx(1.0)


def test_more_money_never_helps_less() -> None:
    odds = [of(replace(CALM, budget=dollars)).on_time for dollars in (1.0, 3.0, 3.4, 4.0, 11.0)]
    assert [b >= a - 0.03 for a, b in pairwise(odds)] == [True] * 4
    assert (odds[0], odds[-1]) == (0.0, 1.0)
    assert 0.05 < odds[2] < 0.95


def test_a_machine_that_works_already_saves_the_start() -> None:
    bought = of(replace(CALM, mode=ON_DEMAND, left_s=11 * H))
    assert bought.p50 == pytest.approx(10 * 1.01, rel=0.01)
    running = replace(CALM, mode=SPOT, bid=0.31, level_spread=0.0)
    assert of(running).p10 == pytest.approx(10 * 0.32, rel=0.01)


def test_a_job_on_demand_comes_back_to_spot_with_much_slack_alone() -> None:
    assert of(replace(CALM, mode=ON_DEMAND)).p90 < 0.6 * of(replace(CALM, mode=ON_DEMAND, left_s=11 * H)).p10


def test_equal_questions_get_equal_answers() -> None:
    forecast_by_floors.cache_clear()
    first = of(CALM)
    forecast_by_floors.cache_clear()
    assert of(CALM) == first
    assert forecast_by_floors(CALM, runs=300, seed=1) != first
