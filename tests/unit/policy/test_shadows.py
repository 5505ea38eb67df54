"""Shadow bidders: what their sums are, and what they come to for a job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, inf

import pytest

from autopilot.domain.floors import Tally
from autopilot.pricing.auction.shadows import (
    MARKUPS,
    PRIOR_HOURS,
    SHADOWING,
    UNPAID_MARKUPS,
    FloorLook,
    LossCosts,
    Shadowing,
    Shadows,
    expect,
    hours_for_one,
    prior_losses,
)

COSTS = LossCosts(checkpoint_h=0.5, again_h=0.1, start_h=0.2)
FOREVER = Shadowing(half_life_h=inf, storm_half_life_h=inf)


def played(
    looks: Sequence[Mapping[str, float]],
    markups: Sequence[float] = (1.02,),
    how: Shadowing = FOREVER,
    limit: float = 9.0,
    ours: Collection[str] = (),
    pays_bid: bool = True,
) -> tuple[Tally, ...]:
    """An hour between two looks."""
    shadows = Shadows(how, markups)
    for floors in looks:
        shadows.look(FloorLook(floors, 1.0, limit, pays_bid, ours))
    return shadows.bidders.tallies


def test_sums_of_a_course_that_can_be_followed_by_hand() -> None:
    looks = [{"a": 1.0, "b": 2.0}, {"a": 1.01, "b": 2.0}, {"a": 1.1, "b": 2.0}, {"a": 3.0, "b": 2.0}]
    (tally,) = played(looks)
    # a at 1.02 for two hours, outbid and again there at 1.122, outbid and then b at 2.04.
    assert (tally.held, tally.without, tally.losses, tally.starts) == (4.0, 0.0, 2.0, 2.0)
    assert tally.dollars == pytest.approx(2 * 1.02 + 1.1 * 1.02 + 2 * 1.02)


def test_a_far_cheaper_machine_is_moved_to_without_a_loss() -> None:
    (tally,) = played([{"a": 1.0}, {"a": 1.0, "b": 0.7}])
    assert (tally.losses, tally.starts) == (0.0, 2.0)
    assert tally.dollars == pytest.approx(1.02 * 1.7)


def test_what_was_bid_in_a_peak_is_not_paid_on_where_another_is_cheaper() -> None:
    (tally,) = played([{"a": 1.0, "b": 1.0}, {"a": 1.5, "b": 1.5}, {"a": 1.0, "b": 1.0}])
    assert (tally.losses, tally.starts) == (1.0, 2.0)
    assert tally.dollars == pytest.approx(1.02 * (1.0 + 1.5 + 1.0))


def test_hours_with_no_bid_below_the_limit_are_hours_without() -> None:
    (tally,) = played([{"a": 9.0}, {"a": 8.9}, {"a": 1.0}])
    assert (tally.without, tally.held) == (2.0, 1.0)


def test_a_higher_bid_on_one_machine_loses_no_more_often() -> None:
    looks = [{"a": 1.0 + 0.001 * (number * number % 97)} for number in range(200)]
    losses = [tally.losses for tally in played(looks, MARKUPS)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_an_hour_counts_half_after_the_half_life() -> None:
    looks = [{"a": 1.0}] * 25
    (tally,) = played(looks, how=Shadowing(half_life_h=1.0))
    assert tally.held == pytest.approx(2.0, abs=1e-6)


class TestNotShown:
    GONE: Sequence[Mapping[str, float]] = [{"a": 1.0, "b": 2.0}, {"b": 2.0}, {"b": 2.0}]

    def test_where_dearer_ones_are_shown_it_is_a_loss_by_a_chance(self) -> None:
        (tally,) = played(self.GONE)
        assert (tally.losses, tally.starts) == (SHADOWING.unobserved_lost, 2.0)

    def test_one_look_alone_says_nothing(self) -> None:
        (tally,) = played([*self.GONE[:2], self.GONE[0], self.GONE[1]])
        assert tally.losses == 0.0

    def test_where_none_is_dearer_it_may_be_there(self) -> None:
        (tally,) = played([{"a": 1.0, "b": 1.01}, *[{"b": 1.01}] * 9])
        assert (tally.losses, tally.held) == (0.0, 10.0)

    def test_a_machine_of_ours_is_not_lost(self) -> None:
        (tally,) = played(self.GONE, ours=("a",))
        assert (tally.losses, tally.held) == (0.0, 3.0)


class TestWhatAllPay:
    def test_the_floor_is_paid_and_not_the_bid(self) -> None:
        (tally,) = played([{"a": 1.0}, {"a": 1.5}, {"a": 0.5}], (4.0,), pays_bid=False)
        assert (tally.dollars, tally.losses) == (3.0, 0.0)

    def test_no_bid_is_above_the_limit(self) -> None:
        tallies = played([{"a": 1.0}, {"a": 1.6}], UNPAID_MARKUPS, limit=2.0, pays_bid=False)
        assert [tally.losses for tally in tallies] == [1.0] * len(UNPAID_MARKUPS)


class TestOwnBids:
    def test_each_markup_below_the_rise_would_have_lost_too(self) -> None:
        shadows = Shadows(FOREVER)
        shadows.look(FloorLook({"a": 1.0}, 1.0, 9.0))
        shadows.add_own(5.0, rise=1.015)
        assert [tally.losses for tally in shadows.bidders.tallies] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert {tally.held for tally in shadows.bidders.tallies} == {6.0}

    def test_their_hours_cost_what_hours_of_the_shadow_do(self) -> None:
        shadows = Shadows(FOREVER, (1.1,))
        shadows.look(FloorLook({"a": 1.0}, 1.0, 9.0))
        shadows.add_own(3.0)
        assert shadows.bidders.tallies[0].dollars == pytest.approx(4.4)

    def test_a_loss_that_no_bid_would_have_kept_counts_for_all(self) -> None:
        shadows = Shadows(FOREVER)
        shadows.add_own(0.0, inf)
        assert {tally.losses for tally in (*shadows.bidders.tallies, shadows.bidders.storm)} == {1.0}


class TestRate:
    def test_without_losses_it_is_the_price(self) -> None:
        rate = expect(Tally(1.02, held=1e6, dollars=1e6), COSTS)
        assert rate is not None
        assert rate.price == pytest.approx(1.0, rel=1e-4)
        assert rate.lost == pytest.approx(0.0, abs=1e-4)

    def test_seldom_losses_cost_half_a_checkpoint_and_a_resume_each(self) -> None:
        rate = expect(Tally(1.02, held=1e6, losses=1e4, dollars=1e6), COSTS)
        assert rate is not None
        assert rate.lost == pytest.approx(0.01 * (0.25 + 0.1), rel=0.01)

    def test_starts_and_hours_without_are_lost(self) -> None:
        rate = expect(Tally(1.02, held=1e6, starts=1e5, without=5e5, dollars=1e6), COSTS)
        assert rate is not None
        assert rate.lost == pytest.approx((0.02 + 0.5) / 0.98, rel=1e-3)
        assert rate.price == pytest.approx(1 / 0.98, rel=1e-3)

    def test_dollars_of_losses_and_starts_are_in_the_price(self) -> None:
        costs = LossCosts(0.5, 0.1, 0.2, loss_dollars=2.0, start_dollars=3.0)
        tally = Tally(1.02, held=1e6, losses=1e4, starts=1e4, dollars=1e6)
        plain, dear = expect(tally, COSTS), expect(tally, costs)
        assert plain is not None
        assert dear is not None
        assert dear.price - plain.price == pytest.approx(0.05, rel=0.01)

    def test_a_bid_that_is_always_lost_does_no_work(self) -> None:
        assert expect(Tally(1.02, held=10.0, losses=1e5, dollars=10.0), COSTS) is None

    def test_nothing_is_known_without_a_look_or_a_floor(self) -> None:
        assert expect(Tally(1.02), COSTS) is None

    def test_cold_the_cheapest_bid_is_some_per_cent_above_the_floor(self) -> None:
        rates = [expect(Tally(markup), COSTS, floor=1.0) for markup in MARKUPS]
        best = min((rate for rate in rates if rate is not None), key=lambda rate: rate.price)
        assert 1.02 <= best.markup <= 1.2

    def test_the_prior_weighs_as_much_as_its_hours(self) -> None:
        tally = Tally(1.02, held=PRIOR_HOURS, dollars=PRIOR_HOURS)
        seen = hours_for_one(prior_losses(1.02) / 2, COSTS.checkpoint_h, COSTS.again_h)
        rate = expect(tally, COSTS)
        assert rate is not None
        assert rate.lost == pytest.approx(seen - 1)


class TestSlowed:
    def test_daly(self) -> None:
        assert hours_for_one(0.5, 2.0, 0.25) == pytest.approx((2.0 + 0.25) * (exp(1.0) - 1) / 2.0)

    @pytest.mark.parametrize("checkpoint_h", [0.0, 0.1, 1.0, 8.0])
    def test_it_rises_with_losses(self, checkpoint_h: float) -> None:
        hours = [hours_for_one(0.05 * number, checkpoint_h, 0.1) for number in range(40)]
        assert hours == sorted(hours)
        assert hours[0] == 1.0

    def test_work_that_is_never_saved_takes_for_ever(self) -> None:
        assert hours_for_one(1.0, 24.0, 0.1) == inf
        assert hours_for_one(0.1, 24.0, 0.1) > hours_for_one(0.1, 1.0, 0.1)
