"""Forecasts: many markets played through under the policy, the same on every run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autopilot.domain.outlook import PhaseModel, Shape
from autopilot.pricing.availability.forecast import Forecast, forecast, refusal
from autopilot.pricing.availability.value import ON_DEMAND, SPOT

H = 3600.0
SOMETIMES = PhaseModel(on=(True, False), moves=((0.9, 0.1), (0.15, 0.85)))
ALWAYS = PhaseModel(on=(True, False), moves=((0.9995, 0.0005), (0.9, 0.1)))
"""Hardly ever off."""
NEVER_AGAIN = PhaseModel(on=(True, False), moves=((0.02, 0.98), (0.001, 0.999)))
"""Hardly ever on, and not for long."""


def shape(phases: PhaseModel = SOMETIMES, **changes: Any) -> Shape:
    values: dict[str, Any] = {
        "phases": phases,
        "longest_s": 8 * H,
        "most_slack_s": 6 * H,
        "restart_s": 360.0,
        "spot_ratio": 0.25,
    }
    return Shape(**(values | changes))


def of(made: Shape | None = None, **changes: Any) -> Forecast:
    values: dict[str, Any] = {
        "left_s": 5 * H,
        "work_s": 3 * H,
        "on_demand_burn": 2.0,
        "budget": None,
        "is_on": True,
        "runs": 300,
    }
    return forecast(made or shape(), **(values | changes))


def test_a_market_that_stays_on_costs_the_work_and_one_start_at_the_spot_price() -> None:
    found = of(shape(ALWAYS))
    assert found.p10 == found.p50 == found.p90 == pytest.approx(3.1 * 2.0 * 0.25)
    assert found.mean == pytest.approx(found.p50, rel=0.02)
    assert found.on_time == 1.0
    assert found.preemptions < 0.1
    assert found.on_demand_cost == pytest.approx(3.1 * 2.0)


def test_it_tells_when_the_work_is_done() -> None:
    sure = of(shape(ALWAYS), rule="spot")
    assert sure.done_s is not None
    assert sure.done_s[0] == sure.done_s[1] == pytest.approx(3.1 * H)
    moody = of(estimate_error=0.1)
    assert moody.done_s is not None
    soonest, middle, latest = moody.done_s
    assert 2.7 * H < soonest < middle < latest <= 5 * H
    poor = of(shape(ALWAYS), budget=0.5)
    assert (poor.finished, poor.done_s) == (0.0, None), "the money is out before the work is done"


def test_a_machine_that_works_already_saves_the_start() -> None:
    begun, running = of(shape(ALWAYS), rule="spot"), of(shape(ALWAYS), rule="spot", mode=SPOT)
    assert running.p50 == pytest.approx(begun.p50 * 3.0 / 3.1)
    on_demand = of(shape(NEVER_AGAIN), rule="on_demand", mode=ON_DEMAND)
    assert on_demand.p50 == pytest.approx(3.0 * 2.0)


def test_a_market_that_goes_off_for_good_is_finished_on_demand() -> None:
    found = of(shape(NEVER_AGAIN))
    assert found.on_time == 1.0
    assert found.preemptions < 1.2
    assert 0.9 * found.on_demand_cost < found.mean < 1.1 * found.on_demand_cost


def test_without_a_budget_the_deadline_is_kept_between_the_prices_of_spot_and_on_demand() -> None:
    found = of()
    assert found.on_time == 1.0
    assert found.parked == 0.0
    assert 3.1 * 0.5 <= round(found.p10, 6) <= found.p50 <= found.p90 < 1.2 * found.on_demand_cost
    assert found.preemptions > 0.5


def test_equal_questions_get_equal_answers() -> None:
    forecast.cache_clear()
    first = of()
    forecast.cache_clear()
    assert of() == first
    assert of(seed=1) != first


def test_more_time_and_more_money_never_cost_more_or_help_less() -> None:
    noise = 0.03
    by_time = [of(left_s=hours * H) for hours in (3.5, 5, 7)]
    assert [a.mean * (1 + noise) >= b.mean for a, b in pairwise(by_time)] == [True, True]
    by_money = [of(budget=dollars) for dollars in (1.0, 2.0, 3.0, 4.0, 8.0)]
    assert [b.on_time >= a.on_time - noise for a, b in pairwise(by_money)] == [True] * 4
    assert (by_money[0].on_time, by_money[-1].on_time) == (0.0, 1.0)


@pytest.mark.parametrize("budget", [0.0, 0.3, 1.0, 2.2, 3.0])
def test_no_more_is_spent_than_there_is(budget: float) -> None:
    found = of(budget=budget)
    assert found.p90 <= budget + 1e-6
    assert found.mean <= budget + 1e-6
    assert found.on_time <= found.finished
    assert found.finished + found.parked == pytest.approx(1.0)


def test_losses_and_work_that_is_longer_than_told_cost_more() -> None:
    plain = of()
    assert of(shape(hazard_per_h=1.0, lost_s=600.0)).mean > plain.mean * 1.05
    assert of(shape(hazard_per_h=1.0, lost_s=600.0)).preemptions > plain.preemptions + 1
    unsure = of(estimate_error=0.2)
    assert unsure.p90 - unsure.p10 > plain.p90 - plain.p10
    assert unsure.on_time == 1.0


def test_spot_alone_may_come_too_late_and_on_demand_alone_never() -> None:
    assert of(rule="spot", left_s=3.5 * H).on_time < 0.7
    assert of(rule="deadline").on_time == 1.0
    assert of(rule="spot", left_s=9 * H).mean == pytest.approx(of(rule="deadline", left_s=9 * H).mean, rel=0.1)
    alone = of(rule="on_demand")
    assert alone.mean == pytest.approx(alone.on_demand_cost)
    assert alone.on_time == 1.0


def test_what_was_seen_before_counts() -> None:
    phases = PhaseModel(
        on=(True, True, False),
        moves=((0.999, 0.0, 0.001), (0.0, 0.3, 0.7), (0.05, 0.05, 0.9)),
    )
    calm, busy = (of(shape(phases), belief=belief) for belief in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
    assert calm.mean < busy.mean * 0.8


def test_a_spot_price_that_is_known_better_is_charged() -> None:
    assert of(shape(ALWAYS), spot_burn=1.0).p50 == pytest.approx(3.1)


LIKELY = Forecast(
    10, 8, 10, 12, on_time=0.9, finished=0.9, parked=0.1, preemptions=1, done_s=(3600, 7200, 9000), on_demand_cost=20
)


def test_a_job_is_refused_when_it_will_probably_be_late() -> None:
    late = replace(LIKELY, on_time=0.61, parked=0.0)
    assert refusal(late, late, None, 0.8) == (
        "the job is only 61% likely to be done by its deadline; at least 80% is asked for"
    )
    assert refusal(late, late, None, 0.6) is None
    assert "budget" not in (refusal(replace(late, on_time=0.3), late, 12.0, 0.8) or "")


def test_a_job_is_refused_when_being_in_time_is_expected_to_cost_more_than_its_budget() -> None:
    unlimited = replace(LIKELY, on_time=1.0, parked=0.0, p50=13.5)
    assert refusal(replace(LIKELY, on_time=0.5, parked=0.5), unlimited, 12.0, 0.8) is None
    poor = replace(LIKELY, on_time=0.45, parked=0.55)
    assert refusal(poor, unlimited, 12.0, 0.8) == (
        "to be done by its deadline the job is expected to cost $13.50, more than its budget of $12.00:"
        " in 55% of the markets the money is out first"
    )
    assert refusal(poor, unlimited, 12.0, 0.4) is None
