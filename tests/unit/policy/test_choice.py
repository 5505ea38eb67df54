"""The core of bidding: a guarantee that nothing below it bends, a bid by shadows, a reserve, moves that pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from random import Random

import pytest

from autopilot.domain.floors import Bidders, Tally
from autopilot.pricing.auction.choice import (
    NUMBERS,
    AuctionedMachine,
    BidChoice,
    Do,
    HeldNow,
    OpenAuction,
    WorkLeft,
    choose,
    is_forced,
    plan_bid,
)
from autopilot.pricing.auction.shadows import MARKUPS, UNPAID_MARKUPS, LossCosts

COSTS = LossCosts(checkpoint_h=1 / 6, again_h=0.04, start_h=1 / 6)
LOST = {1.001: 0.3, 1.01: 0.25, 1.02: 0.2, 1.05: 0.05, 1.1: 0.02, 1.2: 0.01, 1.35: 0.005}
"""Losses an hour of each markup."""
SEEN_H = 1e4
CALM = Tally(1.05, held=SEEN_H, dollars=SEEN_H)
STORM = Tally(1.05, held=10.0, losses=40.0, without=20.0, dollars=10.0)

TIGHT = WorkLeft(left_h=20.5, work_h=20.0, held_h=0.0, unsaved_h=0.1, first_step_h=0.4, costs=COSTS)
AMPLE = replace(TIGHT, left_h=60.0)
RUNS = replace(AMPLE, held=HeldNow.RUNNING, machine="a", bid=1.02)
LOST_A = replace(AMPLE, held=HeldNow.PAUSED, machine="a", bid=1.02)
ON_DEMAND = replace(AMPLE, held=HeldNow.ON_DEMAND)


def auction(
    floors: Mapping[str, float], lost: Mapping[float, float] = LOST, storm: Tally = CALM, on_demand: float = 3.0
) -> OpenAuction:
    """Floors have been at $1 for long."""
    tallies = [
        Tally(markup, held=SEEN_H, losses=SEEN_H * losses, dollars=SEEN_H * markup) for markup, losses in lost.items()
    ]
    machines = [AuctionedMachine(name, floor) for name, floor in floors.items()]
    return OpenAuction(machines, Bidders(tuple(tallies), storm), on_demand, limit=min(0.9 * on_demand, 100.0))


ONE = auction({"a": 1.0})
TWO = auction({"a": 1.0, "b": 1.0})


class TestGuarantee:
    @pytest.mark.parametrize(("left_h", "forced"), [(21.51, False), (21.49, True)])
    def test_one_that_runs_is_kept_as_long_as_another_can_take_over(self, left_h: float, forced: bool) -> None:
        # 20 h of work, 1 h held, 0.1 h unsaved, 0.4 h to the first new step.
        work = replace(RUNS, left_h=left_h, held_h=1.0)
        assert is_forced(work) is forced
        assert (choose(work, ONE) == BidChoice(Do.ON_DEMAND, is_forced=True)) is forced

    @pytest.mark.parametrize(("left_h", "forced"), [(20.6, False), (20.5, True)])
    def test_nothing_is_tried_on_spot_where_on_demand_would_no_longer_fit_after_it(
        self, left_h: float, forced: bool
    ) -> None:
        assert is_forced(replace(TIGHT, left_h=left_h)) is forced

    def test_it_outranks_the_rest_after_a_start(self) -> None:
        assert choose(replace(RUNS, left_h=20.2, since_h=0.01), ONE).do is Do.ON_DEMAND

    def test_who_is_on_demand_stays_there(self) -> None:
        assert choose(replace(ON_DEMAND, left_h=20.1), ONE) == BidChoice(Do.STAY)

    def test_only_the_budget_outranks_it(self) -> None:
        assert choose(replace(TIGHT, budget=62.0), ONE).do is Do.ON_DEMAND
        assert choose(replace(TIGHT, budget=59.0), ONE).do is Do.BID

    def test_without_on_demand_capacity_there_is_none(self) -> None:
        assert choose(TIGHT, auction({"a": 1.0}, on_demand=inf)).do is Do.BID

    def test_without_a_deadline_nothing_is_forced(self) -> None:
        assert not is_forced(replace(TIGHT, left_h=inf))
        assert not is_forced(replace(RUNS, left_h=inf))


class TestBid:
    def test_without_a_deadline_it_is_the_least_dollars_for_an_hour_of_work(self) -> None:
        lost = {1.001: 3.0, 1.01: 2.0, 1.02: 1.5, 1.05: 0.05, 1.1: 0.04, 1.2: 0.03, 1.35: 0.02}
        chosen = choose(replace(AMPLE, left_h=inf), auction({"a": 2.0}, lost))
        assert (chosen.machine, round(chosen.bid, 6)) == ("a", 2.1)

    def test_the_scarcer_slack_the_higher_the_bid(self) -> None:
        dear = auction({"a": 1.0}, on_demand=8.0)
        plans = [plan_bid(replace(TIGHT, left_h=20.6 + 0.1 * number), dear) for number in range(60)]
        markups = [plan.expected.markup for plan in plans if plan is not None]
        assert markups == sorted(markups, reverse=True)
        assert markups[0] > 1.05 > markups[-1]

    def test_no_plan_costs_more_than_all_on_demand(self) -> None:
        plan = plan_bid(TIGHT, ONE)
        assert plan is not None
        assert plan.cost <= 3.0 * 20.0

    def test_work_that_is_never_saved_is_bid_for_higher(self) -> None:
        # Half an hour without a loss is likely at any bid, a day is at high ones alone.
        unsaved = replace(AMPLE, left_h=inf, costs=replace(COSTS, checkpoint_h=20.0))
        saved, whole = plan_bid(replace(AMPLE, left_h=inf), ONE), plan_bid(unsaved, ONE)
        assert saved is not None
        assert whole is not None
        assert whole.expected.markup > saved.expected.markup

    def test_what_a_loss_costs_in_dollars_is_bid_against(self) -> None:
        dear = replace(AMPLE, left_h=inf, costs=replace(COSTS, loss_dollars=5.0))
        plain, paid = plan_bid(replace(AMPLE, left_h=inf), ONE), plan_bid(dear, ONE)
        assert plain is not None
        assert paid is not None
        assert paid.expected.markup > plain.expected.markup

    def test_traffic_and_disk_count_in_the_choice_of_a_machine(self) -> None:
        machines = [
            AuctionedMachine("a", 1.0, once=4.0),
            AuctionedMachine("b", 1.1),
            AuctionedMachine("c", 1.0, storage_rate=0.5),
        ]
        assert choose(AMPLE, replace(ONE, machines=machines)).machine == "b"

    def test_a_bid_above_the_limit_falls_to_one_that_just_wins(self) -> None:
        chosen = choose(
            TIGHT, replace(auction({"a": 1.0}, on_demand=inf), limit=1.03, bidders=Bidders((Tally(1.2),), CALM))
        )
        assert (chosen.machine, round(chosen.bid, 6)) == ("a", 1.02)

    def test_where_all_pay_the_floor_the_bid_is_the_most_that_would_be_paid(self) -> None:
        tallies = [
            Tally(markup, SEEN_H, losses=SEEN_H / 10**place, dollars=SEEN_H)
            for place, markup in enumerate(UNPAID_MARKUPS)
        ]
        chosen = choose(AMPLE, replace(ONE, bidders=Bidders(tuple(tallies), CALM), pays_bid=False))
        assert (chosen.machine, round(chosen.bid, 6)) == ("a", 1.85)


class TestReserve:
    SHORT = replace(TIGHT, left_h=20.45, first_step_h=0.2)

    def test_with_ample_slack_dear_hours_are_waited_out(self) -> None:
        assert choose(AMPLE, auction({"a": 2.9})) == BidChoice(Do.WAIT)
        assert choose(AMPLE, auction({})) == BidChoice(Do.WAIT)

    def test_with_short_slack_they_are_not(self) -> None:
        assert choose(self.SHORT, auction({"a": 2.9})) == BidChoice(Do.ON_DEMAND)
        assert choose(self.SHORT, auction({})) == BidChoice(Do.ON_DEMAND)

    def test_with_short_slack_a_storm_is_not_ridden_out_on_spot(self) -> None:
        assert choose(self.SHORT, ONE).do is Do.BID
        assert choose(self.SHORT, replace(ONE, bidders=replace(ONE.bidders, storm=STORM))) == BidChoice(Do.ON_DEMAND)
        assert choose(AMPLE, replace(ONE, bidders=replace(ONE.bidders, storm=STORM))).do is Do.BID

    def test_spot_that_costs_no_less_for_long_is_not_taken(self) -> None:
        assert choose(AMPLE, auction({"a": 0.5}, on_demand=0.9)) == BidChoice(Do.ON_DEMAND)

    def test_on_demand_is_left_again_after_a_rest_where_it_pays(self) -> None:
        assert choose(replace(ON_DEMAND, since_h=0.4), ONE) == BidChoice(Do.STAY)
        assert choose(replace(ON_DEMAND, since_h=0.6), ONE).do is Do.BID
        assert choose(replace(ON_DEMAND, work_h=0.1), ONE) == BidChoice(Do.STAY)
        assert choose(ON_DEMAND, auction({"a": 2.9})) == BidChoice(Do.STAY)

    def test_what_sends_it_to_on_demand_does_not_bring_it_back(self) -> None:
        """From nothing, at any slack at which on demand is taken, it is not left at once for the same market."""
        for number in range(200):
            left_h, market = 20.0 + 0.02 * number, replace(ONE, bidders=replace(ONE.bidders, storm=STORM))
            if choose(replace(AMPLE, left_h=left_h), market).do is Do.ON_DEMAND:
                assert choose(replace(ON_DEMAND, left_h=left_h), market) == BidChoice(Do.STAY)


class TestMove:
    @pytest.mark.parametrize(("since_h", "do"), [(0.4, Do.STAY), (0.6, Do.BID)])
    def test_no_machine_is_left_for_a_price_within_half_an_hour(self, since_h: float, do: Do) -> None:
        assert choose(replace(RUNS, since_h=since_h), auction({"b": 0.5})).do is do

    def test_nor_for_a_few_per_cent(self) -> None:
        assert choose(RUNS, auction({"b": 0.98})) == BidChoice(Do.STAY)

    def test_a_move_pays_for_itself(self) -> None:
        cheaper = auction({"b": 0.9})
        assert choose(RUNS, cheaper).do is Do.BID
        assert choose(replace(RUNS, work_h=0.5, left_h=60.0), cheaper) == BidChoice(Do.STAY)
        with_traffic = replace(cheaper, machines=[AuctionedMachine("b", 0.9, once=1.0)])
        assert choose(RUNS, with_traffic) == BidChoice(Do.STAY)

    def test_short_slack_is_not_spent_on_it(self) -> None:
        cheaper = auction({"b": 0.9}, on_demand=50.0)
        assert choose(replace(RUNS, bid=2.0), cheaper).do is Do.BID
        assert choose(replace(RUNS, bid=2.0, left_h=20.45, first_step_h=0.2), cheaper) == BidChoice(Do.STAY)

    def test_moves_of_a_night_cost_less_than_they_save(self) -> None:
        """Floors that wander: what the moves paid for, by the core's own reckoning, is less than what they saved."""
        rng, work, moved, saved = Random(4), RUNS, 0, 0.0
        for _ in range(400):
            floors = {name: rng.uniform(0.8, 1.3) for name in "bcd"}
            chosen = choose(replace(work, since_h=1.0), auction(floors))
            if chosen.do is Do.BID:
                moved, saved = moved + 1, saved + work.bid - chosen.bid
                work = replace(work, machine=chosen.machine, bid=chosen.bid)
        assert 1 <= moved < 10
        assert saved * NUMBERS.horizon_h > moved * NUMBERS.move_h * 0.8


class TestOutbid:
    def test_it_is_won_back_where_no_other_is_much_cheaper(self) -> None:
        chosen = choose(LOST_A, auction({"a": 1.1, "b": 1.0}))
        assert chosen.machine == "a"
        assert chosen.bid > 1.1

    def test_it_is_left_for_one_that_is(self) -> None:
        assert choose(LOST_A, auction({"a": 1.5, "b": 1.0})).machine == "b"

    def test_near_the_end_it_is_won_back_at_a_price_that_a_start_would_cost(self) -> None:
        assert choose(replace(LOST_A, work_h=0.1), auction({"a": 1.5, "b": 1.0})).machine == "a"

    def test_a_rival_who_is_back_soon_meets_a_bid_of_what_the_next_machine_costs(self) -> None:
        market = auction({"a": 1.05, "b": 1.2})
        plain, at_once = (choose(replace(LOST_A, lasted_h=lasted_h), market) for lasted_h in (2.0, 0.2))
        assert (plain.machine, at_once.machine) == ("a", "a")
        assert plain.bid < 1.2 <= at_once.bid == pytest.approx(choose(AMPLE, auction({"b": 1.2})).bid)
        between = choose(replace(LOST_A, lasted_h=1.25), market)
        assert plain.bid < between.bid < at_once.bid

    def test_a_bid_against_a_rival_keeps_to_the_limit(self) -> None:
        market = replace(auction({"a": 1.05, "b": 1.2}), limit=1.15)
        assert choose(replace(LOST_A, lasted_h=0.2), market) == choose(LOST_A, market)

    def test_what_a_rival_takes_again_and_again_is_left_for_one_that_costs_no_more(self) -> None:
        market = auction({"a": 1.05, "b": 1.04})
        assert choose(LOST_A, market).machine == "a"
        assert choose(replace(LOST_A, lasted_h=0.2), market).machine == "b"

    def test_two_copies_end_their_war_after_a_bid_or_two(self) -> None:
        """They lost half of their time to steps of 0.2 %, 47 times each."""
        bid, raises, machine = 1.0, 0, "a"
        while machine == "a":
            beaten = replace(LOST_A, bid=bid, lasted_h=0.2)
            chosen = choose(beaten, auction({"a": 1.001 * bid, "b": 1.2}))
            machine, raises = chosen.machine, raises + 1
            bid = max(bid, chosen.bid)
            assert raises < 4
        assert bid < 1.3


def test_where_spot_is_dear_for_long_nothing_goes_to_and_fro_for_a_cheap_moment() -> None:
    """It left on demand for a machine that was cheap now, and that one at the next look: two were paid each time."""
    dear = auction({"a": 0.4}, on_demand=1.0)
    assert choose(AMPLE, dear).do is Do.ON_DEMAND
    assert choose(ON_DEMAND, dear).do is Do.STAY
    assert choose(replace(RUNS, bid=0.42, since_h=0.01), dear).do is Do.STAY
    assert choose(replace(RUNS, bid=0.42), dear).do is Do.STAY


@pytest.mark.parametrize("seed", range(5))
def test_any_answer_can_be_carried_out(seed: int) -> None:
    rng = Random(seed)
    for _ in range(300):
        work, market = _any_work(rng), _any_auction(rng)
        chosen = choose(work, market)
        is_running = work.held in (HeldNow.RUNNING, HeldNow.ON_DEMAND)
        if chosen.do is Do.BID:
            floor = next(each.floor for each in market.machines if each.name == chosen.machine)
            assert floor <= chosen.bid < market.limit
            assert not (work.held is HeldNow.RUNNING and chosen.machine == work.machine)
        elif chosen.do is Do.ON_DEMAND:
            assert market.on_demand * work.work_h <= work.budget
            assert work.held is not HeldNow.ON_DEMAND
        else:
            assert chosen.do is (Do.STAY if is_running else Do.WAIT)
        has_on_demand = market.on_demand < inf and market.on_demand * (work.work_h + COSTS.start_h) <= work.budget
        if is_forced(work) and has_on_demand:
            assert chosen == BidChoice(Do.ON_DEMAND, is_forced=True)
        assert choose(work, market) == chosen


def _any_work(rng: Random) -> WorkLeft:
    held = rng.choice(list(HeldNow))
    machine = rng.choice("abc") if held in (HeldNow.PAUSED, HeldNow.RUNNING) else ""
    return WorkLeft(
        left_h=rng.choice((inf, rng.uniform(-1.0, 40.0))),
        work_h=rng.choice((0.01, rng.uniform(0.01, 30.0))),
        held_h=rng.uniform(0.0, 3.0),
        unsaved_h=rng.uniform(0.0, 1.0),
        first_step_h=rng.uniform(0.05, 1.0),
        costs=replace(COSTS, checkpoint_h=rng.choice((0.1, 1.0, 10.0)), loss_dollars=rng.choice((0.0, 1.0))),
        held=held,
        machine=machine,
        bid=rng.uniform(0.1, 2.0) if machine else 0.0,
        since_h=rng.choice((0.0, 0.6, inf)),
        lasted_h=rng.choice((0.0, 0.6, inf)),
        budget=rng.choice((inf, rng.uniform(0.0, 100.0))),
    )


def _any_auction(rng: Random) -> OpenAuction:
    names = rng.sample("abcdef", rng.randint(0, 6))
    machines = [AuctionedMachine(name, rng.uniform(0.1, 4.0), rng.choice((0.0, 0.5))) for name in names]
    tallies = [
        rng.choice((Tally(markup), Tally(markup, 30.0, rng.uniform(0, 20), rng.uniform(0, 90), 3.0, 30.0 * markup)))
        for markup in MARKUPS
    ]
    on_demand = rng.choice((inf, 1.0, 3.0))
    return OpenAuction(
        machines, Bidders(tuple(tallies), tallies[3]), on_demand, min(0.9 * on_demand, 3.0), rng.random() < 0.5
    )
