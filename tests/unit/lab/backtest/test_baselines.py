"""The baselines decide as published; their costs on small suites are held to the last digit."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, optimal_cost, play
from autopilot_lab.backtest.policies import parse_policies, starter
from autopilot_lab.backtest.suite_file import suite_from
from tests.unit.lab.backtest.small_suites import bid_body, random_availability_body, random_bid_body

COSTS = [
    (
        random_availability_body(1),
        {"on-demand": 441.0, "greedy": 227.416667, "uniform-progress": 253.583333, "optimal": 209.083333},
    ),
    (
        random_bid_body(1),
        {
            "on-demand": 314.133333,
            "uniform-progress": 43.811870,
            "fixed-bid": 71.249033,
            "floor-markup": 43.811870,
            "on-demand-bid": 195.117633,
            "optimal": 32.612400,
        },
    ),
]


@pytest.mark.parametrize(("body", "costs"), COSTS, ids=["availability", "bids"])
def test_small_suites(body: dict[str, Any], costs: dict[str, float]) -> None:
    suite = suite_from(body)
    found = {"optimal": sum(optimal_cost(suite, run) for run in suite.runs)}
    for name in costs.keys() - {"optimal"}:
        start = starter(parse_policies(name)[0], suite.config.kind, {})
        found[name] = sum(play(suite, run, start, Conditions()).cost for run in suite.runs)
    assert found == pytest.approx(costs, abs=1e-6)


def answers(
    policy: str, floors: dict[str, list[float]], start: int = 0, deadline_h: float = 6
) -> tuple[Outcome, list[Choice | Spot]]:
    body = bid_body(floors, runs=[[start, 3, deadline_h, "bid"]])
    suite, seen = suite_from(body), []

    def note(_view: BidView, choice: Choice | Spot) -> None:
        seen.append(choice)

    kind = suite.config.kind
    return play(suite, suite.runs[0], starter(parse_policies(policy)[0], kind, {}), Conditions(), note), seen


def test_the_markup_follows_the_floor_and_stays_below_on_demand() -> None:
    floors = [1.0, 1.0, 1.5, 2.0, 2.9, 1.0] + [1.0] * 24
    _, seen = answers("floor-markup:markup=1.1", {"a": floors}, deadline_h=14)
    bids = [answer.bid for answer in seen[:4] if isinstance(answer, Spot) and answer.machine == 0]
    assert bids == pytest.approx([1.1 * floor for floor in floors[:4]])
    assert seen[4] is Choice.NONE


def test_a_machine_is_left_only_for_a_far_cheaper_one() -> None:
    def machines(cheaper: float) -> list[int]:
        floors = {"a": [1.0] * 30, "b": [1.0] * 3 + [cheaper] * 27}
        return [choice.machine for choice in answers("floor-markup", floors)[1] if type(choice) is Spot]

    assert set(machines(0.85)) == {0}
    assert machines(0.5)[:4] == [0, 0, 0, 1]


def test_the_fixed_bid_never_changes_and_its_machine_is_kept_while_outbid() -> None:
    calm = [0.5, 0.8] * 10 + [0.5, 0.9, 0.5] + [0.5] * 17
    wild = [0.2, 2.0] * 20
    outcome, seen = answers("fixed-bid", {"a": calm, "b": wild}, start=20, deadline_h=8)
    assert set(seen) == {Spot(0, 0.8)}
    # Set up in the second tick, whose floor is above the bid.
    assert (outcome.status, outcome.pauses) == ("finished", 0)
    assert outcome.storage == pytest.approx(0.1 * len(seen) / 2)


@pytest.mark.parametrize(("deadline_h", "bid"), [(6, 0.8), (9, 0.5)])
def test_the_fixed_bid_is_the_lowest_that_leaves_time(deadline_h: float, bid: float) -> None:
    _, seen = answers("fixed-bid", {"a": [0.5] * 20 + [0.8] * 20 + [0.5] * 25}, start=40, deadline_h=deadline_h)
    assert seen[0] == Spot(0, bid)


def test_the_fixed_bid_is_not_made_before_the_floor_is_within_it() -> None:
    _, seen = answers("fixed-bid", {"a": [0.5] * 40 + [0.9, 0.9] + [0.5] * 25}, start=40, deadline_h=9)
    assert seen[:3] == [Choice.NONE, Choice.NONE, Spot(0, 0.5)]


def test_a_fixed_bid_no_cheaper_than_on_demand_is_on_demand() -> None:
    outcome, seen = answers("fixed-bid", {"a": [0.5, 3.5] * 20}, start=20)
    assert set(seen) == {Choice.ON_DEMAND}
    assert outcome.status == "finished"


@pytest.mark.parametrize("policy", ["floor-markup", "fixed-bid", "on-demand-bid", "uniform-progress"])
def test_a_market_that_shuts_at_the_worst_tick_makes_none_late(policy: str) -> None:
    for shut in range(1, 12):
        floors = [1.0] * 5 + [1.0] * shut + [99.0] * 20
        assert answers(policy, {"a": floors}, start=5)[0].status == "finished", shut
