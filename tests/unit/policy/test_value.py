"""Tables of costs to go, against costs worked out by hand and a recursion written down as it is defined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from autopilot.domain.outlook import PhaseModel, Shape
from autopilot.pricing.availability.beliefs import PER_SIGN, Weights
from autopilot.pricing.availability.phases import first_belief, next_belief
from autopilot.pricing.availability.value import LATE, NOTHING, ON_DEMAND, SPOT, CostToGo, cost_to_go, table_step_s

STEP_S = 600.0
HOUR_S = 3600.0
RARELY = 3e-4

ALWAYS_ON = PhaseModel((True, False), ((1 - RARELY, RARELY), (0.5, 0.5)))
ALWAYS_OFF = PhaseModel((True, False), ((0.5, 0.5), (RARELY, 1 - RARELY)))
SWITCHES = PhaseModel(
    # Six steps after it went off spot is back, and stays.
    (True, *[False] * 6),
    (
        (1 - RARELY, RARELY, 0.0, 0.0, 0.0, 0.0, 0.0),
        *(tuple(float(column == row + 1) for column in range(7)) for row in range(1, 6)),
        (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ),
)
RESTLESS = PhaseModel((True, False), ((0.9, 0.1), (0.25, 0.75)))


def shape(phases: PhaseModel, **changes: float) -> Shape:
    values = {"longest_s": 60 * STEP_S, "most_slack_s": 60 * STEP_S, "restart_s": STEP_S, "spot_ratio": 0.3}
    return Shape(phases, **(values | changes))


RESTLESS_SHAPE = shape(RESTLESS)


def clusters_of(table: CostToGo, is_on: bool) -> Weights:
    return table.clusters.weights(first_belief(table.shape.phases, is_on), is_on=is_on)


def hours(table: CostToGo, mode: int, left: float, slack: float, *, is_on: bool) -> float:
    """``left`` and ``slack`` in steps."""
    return table.hours(mode, left * STEP_S, slack * STEP_S, clusters_of(table, is_on))


def test_spot_that_is_always_there_costs_its_price_restart_included() -> None:
    table = cost_to_go(shape(ALWAYS_ON))
    work = 24
    assert hours(table, SPOT, 40, 40 - work, is_on=True) == pytest.approx(0.3 * 4, rel=0.01)
    assert hours(table, SPOT, 40, 40 - work - 1, is_on=True) == pytest.approx(0.3 * 25 / 6, rel=0.01)
    assert hours(table, ON_DEMAND, 40, 40 - work - 1, is_on=True) > hours(table, SPOT, 40, 40 - work - 1, is_on=True)


def test_on_demand_goes_back_to_spot_that_is_always_there_within_a_step() -> None:
    table = cost_to_go(shape(ALWAYS_ON))
    # One step on demand, then a start and what is left at the spot price.
    assert hours(table, ON_DEMAND, 40, 16, is_on=True) == pytest.approx((1 + 0.3 * (1 + 23)) / 6, rel=0.01)


def test_where_spot_is_never_there_waiting_only_puts_off_on_demand() -> None:
    table = cost_to_go(shape(ALWAYS_OFF))
    work = 24
    assert hours(table, ON_DEMAND, 40, 40 - work - 1, is_on=False) == pytest.approx(25 / 6, rel=0.01)
    assert hours(table, NOTHING, 40, 40 - work, is_on=False) == pytest.approx(25 / 6, rel=0.01)


@pytest.mark.parametrize(
    ("slack", "on_demand", "spot"),
    [
        (9, 0, 25),
        (7, 0, 25),  # six steps of waiting and a start
        (6, 2, 24),  # too short to wait them all out: four, two on demand (a start, a step of work), then over
        (3, 5, 21),
        (2, 6, 20),
        (1, 25, 0),  # a second start does not fit any more
    ],
)
def test_it_waits_for_a_switch_that_is_known_to_come_as_long_as_the_slack_allows(
    slack: int, on_demand: int, spot: int
) -> None:
    table = cost_to_go(shape(SWITCHES))
    just_off = next_belief(SWITCHES, first_belief(SWITCHES, True), STEP_S, False)
    belief = table.clusters.weights(just_off, is_on=False)
    left_s = (24 + slack) * STEP_S
    best = min(
        table.hours(NOTHING, left_s, slack * STEP_S, belief),
        table.hours(ON_DEMAND, left_s, (slack - 1) * STEP_S, belief),
    )
    assert best == pytest.approx((on_demand + 0.3 * spot) / 6, rel=0.02)


Equation = Callable[[int, int, int, int], float]
STEP_H = STEP_S / HOUR_S


def at_the_edges(equation: Equation) -> Equation:
    """What slack is missing is paid for by the step; what fits into the slack costs nothing."""

    @cache
    def of(left: int, slack: int, mode: int, cluster: int) -> float:
        if slack < 0:
            return of(left, 0, mode, cluster) - slack * STEP_H * LATE
        return 0.0 if left <= slack else equation(left, slack, mode, cluster)

    return of


def by_definition(table: CostToGo, left: int, slack: int, mode: int, cluster: int) -> float:
    """The module's equations, a state at a time; durations in whole steps, hence no grid between them."""
    terms, moves, step_h = table.shape, table.clusters.moves, STEP_H
    restart, lost = int(terms.restart_s / STEP_S), int(terms.lost_s / STEP_S)
    chance_lost = 1 - 2.718281828459045 ** (-terms.hazard_per_h * step_h)

    @at_the_edges
    def go_on(left: int, slack: int, mode: int, cluster: int) -> float:
        paid = min(left - slack, 1) * step_h
        ahead = [(chance, to) for to, chance in enumerate(moves[cluster]) if chance]
        if mode == NOTHING:
            if slack < 1:
                return (left - slack + 2 * restart) * step_h + 1
            return sum(chance * least(left - 1, slack - 1, NOTHING, to) for chance, to in ahead)
        if mode == ON_DEMAND:
            return paid + sum(chance * least(left - 1, slack, ON_DEMAND, to) for chance, to in ahead)
        cost = terms.spot_ratio * paid
        for chance, to in ahead:
            gone = 1.0 if to >= PER_SIGN else chance_lost
            cost += chance * gone * least(left - 1, slack - lost, NOTHING, to)
            cost += chance * (1 - gone) * least(left - 1, slack, SPOT, to)
        return cost

    @at_the_edges
    def least(left: int, slack: int, mode: int, cluster: int) -> float:
        costs = [go_on(left, slack, NOTHING, cluster)]
        is_on = cluster < PER_SIGN
        costs.append(go_on(left, slack if mode == ON_DEMAND else slack - restart, ON_DEMAND, cluster))
        if is_on and mode == SPOT:
            costs.append(go_on(left, slack, SPOT, cluster))
        elif is_on and slack >= restart:
            costs.append(go_on(left, slack - restart, SPOT, cluster))
        return min(costs)

    return go_on(left, slack, mode, cluster)


def test_every_state_of_a_small_table_is_as_defined() -> None:
    terms = shape(RESTLESS, restart_s=2 * STEP_S, hazard_per_h=0.5, lost_s=STEP_S)
    table = cost_to_go(terms)
    left = 5
    for slack in range(7):
        for mode in (NOTHING, SPOT, ON_DEMAND):
            for cluster in (0, 7, 16, 31):
                found = table.hours(mode, left * STEP_S, slack * STEP_S, ((cluster, 1.0),))
                assert found == pytest.approx(by_definition(table, left, slack, mode, cluster), rel=1e-5, abs=1e-6), (
                    f"slack {slack}, mode {mode}, cluster {cluster}"
                )


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("mode", [NOTHING, SPOT, ON_DEMAND])
def test_more_time_never_costs_more_and_more_work_never_less(mode: int, is_on: bool) -> None:
    table = cost_to_go(RESTLESS_SHAPE)
    for work in (6, 18, 36):
        by_time = [hours(table, mode, work + slack, slack, is_on=is_on) for slack in range(-2, 60 - work)]
        assert all(later <= sooner + 1e-5 for sooner, later in pairwise(by_time))
        assert by_time[-1] < by_time[2], "time is worth something here"
    for left in (20, 50):
        by_work = [hours(table, mode, left, left - work, is_on=is_on) for work in range(1, left + 3)]
        assert all(less <= more + 1e-5 for less, more in pairwise(by_work))


def test_when_spot_costs_as_much_as_on_demand_there_is_nothing_to_wait_for() -> None:
    table = cost_to_go(replace(RESTLESS_SHAPE, spot_ratio=1.0))
    for slack in range(1, 36):
        waits = hours(table, NOTHING, 24 + slack, slack, is_on=False)
        goes = hours(table, ON_DEMAND, 24 + slack, slack - 1, is_on=False)
        assert goes <= waits + 1e-5
        assert goes == pytest.approx(25 / 6, rel=1e-5)


def test_losses_make_spot_dearer_and_on_demand_no_cheaper() -> None:
    calm = hours(cost_to_go(RESTLESS_SHAPE), SPOT, 50, 20, is_on=True)
    hazard = hours(cost_to_go(replace(RESTLESS_SHAPE, hazard_per_h=0.5)), SPOT, 50, 20, is_on=True)
    both = hours(cost_to_go(replace(RESTLESS_SHAPE, hazard_per_h=0.5, lost_s=900)), SPOT, 50, 20, is_on=True)
    work_lost = hours(cost_to_go(replace(RESTLESS_SHAPE, lost_s=900)), SPOT, 50, 20, is_on=True)
    assert calm < hazard < both
    assert calm < work_lost < both
    sure = hours(cost_to_go(replace(RESTLESS_SHAPE, spot_ratio=1.0)), ON_DEMAND, 50, 20, is_on=True)
    assert sure == pytest.approx(5.0), "what never changes hands loses nothing"


def test_dearer_spot_costs_more_but_never_more_than_on_demand_alone() -> None:
    costs = [
        hours(cost_to_go(replace(RESTLESS_SHAPE, spot_ratio=ratio)), SPOT, 40, 15, is_on=True)
        for ratio in (0.1, 0.3, 1.0)
    ]
    assert costs == sorted(costs)
    assert costs[0] < costs[1] < costs[2]


def test_between_grid_points_it_is_linear_below_them_late_above_them_the_last() -> None:
    table = cost_to_go(RESTLESS_SHAPE)
    belief = clusters_of(table, True)

    def read(slack_s: float) -> float:
        return table.hours(SPOT, 30 * STEP_S, slack_s, belief)

    assert read(4.25 * STEP_S) == pytest.approx(0.75 * read(4 * STEP_S) + 0.25 * read(5 * STEP_S))
    assert read(-900) == pytest.approx(read(0) + LATE * 900 / HOUR_S)
    assert read(1e9) == read(30 * STEP_S) == 0.0, "nothing is left to do"


@pytest.mark.parametrize(
    ("longest_s", "step_s"), [(36_000, 600), (3600, 60), (30, 1), (450 * 600, 600), (900 * 600, 1200)]
)
def test_a_table_has_neither_few_steps_nor_many(longest_s: float, step_s: float) -> None:
    assert table_step_s(longest_s) == step_s


def test_a_table_is_made_once_and_twice_the_same() -> None:
    table = cost_to_go(RESTLESS_SHAPE)
    assert cost_to_go(replace(RESTLESS_SHAPE)) is table
    again = CostToGo(RESTLESS_SHAPE)
    for slack in (0, 3.3, 17):
        assert hours(again, SPOT, 30, slack, is_on=True) == hours(table, SPOT, 30, slack, is_on=True)
