"""What is believed of a floor that is not shown."""

from __future__ import annotations

import pytest

from autopilot.pricing.auction.unobserved import MOST_STEPS, UnobservedFloor

np = pytest.importorskip("numpy")

FALLS = ((1.0, 0.0), (0.1, 0.8))
"""From the upper of two levels it falls in a tenth of all steps, stays in eight, and rises beyond the bid in one."""


def test_who_still_runs_was_not_outbid_so_the_floor_has_fallen_the_likelier_the_longer() -> None:
    floor = UnobservedFloor(np.array(FALLS))
    assert floor.at_most(0, 0) == 0.0
    assert floor.at_most(0, 1) == pytest.approx(0.1 / 0.9)
    # After two: a tenth fell at first, 0.8 · 0.1 then, and 0.8 · 0.8 have not.
    assert floor.at_most(0, 2) == pytest.approx(0.18 / (0.18 + 0.64))
    chances = [floor.at_most(0, steps) for steps in range(40)]
    assert chances == sorted(chances)
    assert floor.at_most(1, 7) == pytest.approx(1.0)


def test_a_very_old_bid_counts_as_an_old_one() -> None:
    floor = UnobservedFloor(np.array(FALLS))
    assert floor.at_most(0, 10**9) == floor.at_most(0, MOST_STEPS)


def test_a_chain_that_only_rises_says_nothing() -> None:
    floor = UnobservedFloor(np.zeros((2, 2)))
    assert floor.at_most(0, 50) == 0.0
