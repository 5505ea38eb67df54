"""Floors become odds of the next floor."""

from __future__ import annotations

import random
from bisect import bisect_left
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot.domain.floors import RATIO_EDGES, RISES, FloorOutlook, Habit, Jumps
from autopilot.pricing.auction.floors import FloorFit, estimate

STEP_S = 300.0
FIT = FloorFit(own_steps=100.0)


def walk(seed: int, jump_chance: float, steps: int = 600, base: float = 0.1) -> list[float]:
    """A floor that doubles now and then for one step."""
    rng = random.Random(seed)
    return [base * 2 if rng.random() < jump_chance else base for _ in range(steps)]


def chance_of_rise(jumps: Jumps, outlook: FloorOutlook, floor: float) -> float:
    level = sum(edge < floor for edge in outlook.edges)
    return sum(share for edge, row in zip(RATIO_EDGES, jumps[level], strict=True) if edge > 1.01 for _, share in row)


def test_the_odds_of_each_level_sum_to_one() -> None:
    outlook = estimate({"a": walk(1, 0.05), "b": walk(2, 0.2)}, STEP_S, 1.0, FIT)
    for jumps in (outlook.pooled, *(own for _, own in outlook.own)):
        for bins in jumps:
            assert sum(share for row in bins for _, share in row) == pytest.approx(1.0)
    for sizes in (outlook.usual, *(habit.sizes for _, habit in outlook.habits)):
        assert len(sizes) == len(RISES)
        assert all(sum(row) == pytest.approx(1.0) for row in sizes)
    for row in (*outlook.moves, *outlook.others):
        assert sum(row) == pytest.approx(1.0)


def test_a_restless_machine_is_told_from_a_calm_one() -> None:
    outlook = estimate({"calm": walk(1, 0.02), "restless": walk(2, 0.3)}, STEP_S, 1.0, FIT)
    own = dict(outlook.own)
    calm, pool, restless = (
        chance_of_rise(jumps, outlook, 0.1) for jumps in (own["calm"], outlook.pooled, own["restless"])
    )
    assert calm < pool < restless


def test_the_pool_weighs_more_the_less_is_known() -> None:
    rows = {"calm": walk(1, 0.02), "restless": walk(2, 0.3)}

    def of_calm(weight: float) -> float:
        outlook = estimate(rows, STEP_S, 1.0, FloorFit(own_steps=100.0, pool_weight=weight))
        return chance_of_rise(dict(outlook.own)["calm"], outlook, 0.1)

    assert of_calm(1.0) < of_calm(100.0) < of_calm(10000.0)


def test_a_machine_that_was_hardly_seen_has_no_odds_of_its_own() -> None:
    hardly: list[float] = [nan] * 590 + [0.1] * 10
    outlook = estimate({"often": walk(1, 0.05), "hardly": hardly}, STEP_S, 1.0, FIT)
    assert [name for name, _ in outlook.own] == ["often"]


def test_newer_jumps_weigh_more() -> None:
    late_calm = walk(1, 0.3, 300) + walk(2, 0.01, 300)
    late_storm = walk(2, 0.01, 300) + walk(1, 0.3, 300)
    fit = FloorFit(half_life_h=5.0)
    calm, storm = (estimate({"a": row}, STEP_S, 1.0, fit) for row in (late_calm, late_storm))
    assert chance_of_rise(calm.pooled, calm, 0.1) < chance_of_rise(storm.pooled, storm, 0.1)


def test_a_gap_is_no_jump() -> None:
    gap = [0.1] * 50 + [nan] * 5 + [0.2] * 50
    outlook = estimate({"a": gap}, STEP_S, 1.0, FloorFit(prior_weight=1e-6))
    assert chance_of_rise(outlook.pooled, outlook, 0.1) == pytest.approx(0.0)


def test_floors_never_seen_twice_in_a_row_are_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        estimate({"a": [0.1, nan, 0.1, nan]}, STEP_S, 1.0, FIT)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.01, 3.0), min_size=2, max_size=60))
def test_equal_floors_make_equal_outlooks(row: list[float]) -> None:
    one, other = (estimate({"a": row}, STEP_S, 1.0, FIT) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_nothing_to_be_had_is_a_class_of_its_own() -> None:
    here, gone = walk(1, 0.1), walk(2, 0.1)
    for step in range(100, 140):
        here[step] = gone[step] = nan
    outlook = estimate({"a": here, "b": gone}, STEP_S, 1.0, FIT)
    assert outlook.classes[-1] == 1.0
    assert outlook.cheapest[-1] > 1.0
    assert outlook.moves[-1][-1] > 0.8
    always = estimate({"a": walk(1, 0.1), "b": gone}, STEP_S, 1.0, FIT)
    assert max(always.cheapest) < 1.0


def test_machines_of_different_price_are_told_apart() -> None:
    prices = [0.1, 0.17, 0.2, 0.23, 0.27, 0.3, 0.34]
    rows = {str(number): walk(number, 0.05, base=base) for number, base in enumerate(prices)}
    edges = estimate(rows, STEP_S, 1.0, FIT).edges
    assert len({sum(edge < price for edge in edges) for price in prices}) == len(prices)


def test_levels_stay_few_however_far_apart_prices_are() -> None:
    rows = {str(number): walk(number, 0.05, base=0.001 * 2.0**number) for number in range(10)}
    assert len(estimate(rows, STEP_S, 1.0, FIT).edges) < 30


def test_a_floor_of_nothing_is_none() -> None:
    nothing = [0.0 if step % 50 == 0 else floor for step, floor in enumerate(walk(1, 0.05))]
    unseen = [nan if floor == 0.0 else floor for floor in nothing]
    assert estimate({"a": nothing}, STEP_S, 1.0, FIT) == estimate({"a": unseen}, STEP_S, 1.0, FIT)


def test_how_far_a_floor_is_above_its_own_calm_one_tells_how_it_jumps() -> None:
    rng = random.Random(1)

    def pressed(base: float) -> list[float]:
        """A rival raises the floor by 30 % now and then, for an hour or so; another one beside him is rare."""
        row, left = list[float](), 0
        for _ in range(2000):
            left = left - 1 if left else rng.randint(6, 18) if rng.random() < 0.05 else 0
            row.append(base * (1.0 if not left else 1.69 if rng.random() < 0.005 else 1.3))
        return row

    outlook = estimate({"cheap": pressed(0.1), "dear": pressed(0.13)}, STEP_S, 1.0, FIT)
    cheap, dear = (habit for _, habit in outlook.habits)
    assert (cheap.calm, dear.calm) == pytest.approx((0.1, 0.13))

    def outbid(habit: Habit) -> float:
        row = habit.sizes[bisect_left(RISES, 0.13 / habit.calm * 0.999)]
        return sum(share for edge, share in zip(RATIO_EDGES, row, strict=True) if edge > 1.2)

    # 0.13 is a third above what the one usually costs, and all that the other does.
    assert outbid(cheap) < 0.4 * outbid(dear)


def test_a_calm_floor_is_that_of_late() -> None:
    outlook = estimate({"a": [0.2] * 600 + [0.1] * 600}, STEP_S, 1.0, FloorFit(half_life_h=5.0))
    assert dict(outlook.habits)["a"].calm == 0.1
    outlook = estimate({"a": [0.1] * 600 + [0.2] * 600}, STEP_S, 1.0, FloorFit(half_life_h=5.0))
    assert dict(outlook.habits)["a"].calm == 0.2


def test_a_machine_seen_but_once_has_no_habits() -> None:
    outlook = estimate({"a": walk(1, 0.05), "once": [nan] * 599 + [0.1]}, STEP_S, 1.0, FIT)
    assert [name for name, _ in outlook.habits] == ["a"]
