"""The time to the first new step on another machine, as a percentile."""

from __future__ import annotations

import pytest

from autopilot.domain.hosts import LaunchOdds
from autopilot.pricing.auction.first_step import MOST_TRIES, first_step_s


def test_it_is_well_above_the_mean_where_nothing_was_seen() -> None:
    assert 2 * 600 < first_step_s(600) < 2.5 * 600


def test_many_starts_outweigh_what_was_expected() -> None:
    assert first_step_s(600, (60.0,) * 200) < 2 * 60
    assert first_step_s(60, (900.0,) * 200) > 900


def test_few_starts_are_shrunk_to_what_was_expected() -> None:
    few, many = first_step_s(600, (300.0,)), first_step_s(600, (300.0,) * 10)
    assert many < few < first_step_s(600)


def test_a_wide_spread_is_held_for() -> None:
    even, wide = (600.0,) * 40, (200.0, 1800.0) * 20
    assert first_step_s(600, wide) > first_step_s(600, even) + 300


def test_each_try_that_may_fail_adds_the_time_in_which_that_is_seen() -> None:
    seen = (600.0,) * 70
    good, bad = (first_step_s(600, seen, LaunchOdds(100, failed), 900.0) for failed in (0, 30))
    # 0.3³ < 0.05: three tries.
    assert bad - good == pytest.approx(2 * 900)


def test_a_market_where_all_fails_is_not_waited_for_without_end() -> None:
    all_fail = first_step_s(600, (), LaunchOdds(10**6, 10**6), 900.0)
    assert all_fail == pytest.approx(first_step_s(600) + (MOST_TRIES - 1) * 900)
