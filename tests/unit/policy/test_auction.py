"""Options are priced as the floors, the time and the work have it."""

from __future__ import annotations

import random
from dataclasses import replace
from math import nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autopilot.pricing.auction.tables as auction_tables_module
from autopilot.domain.floors import AuctionShape
from autopilot.pricing.auction.floors import FloorFit, estimate
from autopilot.pricing.auction.options import Held, Margins, Position, Quote, Quotes, SpotMachine, choice, quotes
from autopilot.pricing.auction.tables import AuctionTables, auction_tables

STEP_S = 300.0
WORK_S = 40 * STEP_S
STEP_H = STEP_S / 3600
ON_DEMAND = 1.0


def floors(seed: int) -> list[float]:
    rng = random.Random(seed)
    row, floor = [], 0.2
    for _ in range(800):
        if rng.random() < 0.1:
            floor = 0.2 * rng.choice((1.0, 1.0, 1.0, 1.1, 1.5, 4.0))
        row.append(floor)
    return row


@pytest.fixture(scope="module")
def shape() -> AuctionShape:
    outlook = estimate({"a": floors(1), "b": floors(2)}, STEP_S, ON_DEMAND, FloorFit(own_steps=100.0, most_own=1))
    return AuctionShape(
        outlook,
        longest_work_s=WORK_S,
        on_demand_price=ON_DEMAND,
        storage_rate=0.01,
        ceiling=0.9 * ON_DEMAND,
        bills_at_bid=True,
        migrate_s=600.0,
        resume_s=120.0,
        checkpoint_s=600.0,
        reserve_s=STEP_S,
    )


def priced(shape: AuctionShape, left_steps: float, work_steps: float, *spots: SpotMachine, **position: Any) -> Quotes:
    now = Position(left_steps * STEP_S, work_steps * STEP_S, **position)
    return quotes(auction_tables(shape), now, spots or (SpotMachine("a", 0.2), SpotMachine("b", 0.2)))


def seen_in_part(shape: AuctionShape, on_demand_price: float = 0.4) -> AuctionShape:
    """A market that does not show the floors of machines that run."""
    return replace(shape, on_demand_price=on_demand_price, ceiling=0.9 * on_demand_price, shows_running=False)


def least(quoted: Quotes) -> float:
    ways = (quoted.on_demand, quoted.release, *quoted.bids)
    return min(way.cost for way in ways)


def test_a_job_costs_less_than_on_demand_and_more_than_the_calm_floor(shape: AuctionShape) -> None:
    cost = least(priced(shape, 80, 40))
    assert 40 * STEP_H * 0.2 < cost < 42 * STEP_H * (ON_DEMAND + 0.01)


@settings(max_examples=80, deadline=None)
@given(left=st.integers(50, 120), work=st.integers(2, 38), in_part=st.booleans())
def test_more_time_never_costs_more_and_more_work_never_less(
    shape: AuctionShape, left: int, work: int, in_part: bool
) -> None:
    market = seen_in_part(shape) if in_part else shape
    cost = least(priced(market, left, work))
    assert least(priced(market, left + 5, work)) <= cost + 1e-4
    assert least(priced(market, left, work + 2)) >= cost - 1e-4


@settings(max_examples=40, deadline=None)
@given(floor=st.floats(0.01, 2.0), left=st.integers(42, 100), share=st.floats(0.3, 0.99))
def test_no_bid_reaches_the_ceiling(shape: AuctionShape, floor: float, left: int, share: float) -> None:
    lower = replace(shape, ceiling=0.9)
    quoted = priced(lower, left, 40 * share, SpotMachine("a", floor), SpotMachine("b", 0.3))
    assert all(0.0 < quote.bid < 0.9 for quote in quoted.bids)


def test_the_cheaper_of_two_alike_is_cheaper_to_finish_on(shape: AuctionShape) -> None:
    quoted = priced(shape, 80, 40, SpotMachine("x", 0.2), SpotMachine("y", 0.24))
    assert quoted.bids[0].cost < quoted.bids[1].cost


def test_a_lower_price_is_worth_more_than_the_next_step_of_it(shape: AuctionShape) -> None:
    low, high = 0.244, 0.262
    tables = auction_tables(shape)
    assert tables.level(low) == tables.level(high), "one level, so that only where in it a floor lies can tell"
    quoted = priced(shape, 80, 40, SpotMachine("x", low), SpotMachine("y", high))
    assert quoted.bids[1].cost - quoted.bids[0].cost > 3 * (high - low) * STEP_H


def test_the_guard_forces_on_demand_when_time_runs_out(shape: AuctionShape) -> None:
    # A start of two steps, the reserve of one, and the step that would pass meanwhile.
    assert not priced(shape, 44, 40).is_forced
    assert priced(shape, 43, 40).is_forced
    running = {"held": Held.RUNNING, "machine": "a", "bid": 0.2, "is_set_up": True}
    assert priced(shape, 44, 40, thrown_back_s=STEP_S, **running).is_forced
    assert priced(shape, 44, 40, worst_extra_s=STEP_S).is_forced
    assert not priced(shape, 42, 40, held=Held.ON_DEMAND).is_forced
    # Who looks again sooner than after a step keeps only that much free.
    assert not priced(shape, 43.25, 40, look_s=STEP_S / 4).is_forced
    assert priced(shape, 43, 40, look_s=STEP_S / 4).is_forced


def test_forced_means_on_demand_at_any_price(shape: AuctionShape) -> None:
    quoted = priced(shape, 42, 40)
    assert choice(quoted, Position(42 * STEP_S, 40 * STEP_S), Margins(), STEP_S) is quoted.on_demand


def test_the_less_time_there_is_the_higher_the_bid(shape: AuctionShape) -> None:
    running = {"held": Held.RUNNING, "machine": "a", "bid": 0.2, "is_set_up": True, "thrown_back_s": STEP_S}
    bids = [priced(shape, 40 + slack, 40, SpotMachine("a", 0.2), **running).bids[0].bid for slack in (60, 20, 6)]
    assert bids == sorted(bids)
    assert bids[0] < bids[-1]


def test_a_floor_that_is_paid_costs_no_more_than_a_bid_that_is(shape: AuctionShape) -> None:
    clearing = replace(shape, bills_at_bid=False)
    assert least(priced(clearing, 60, 40)) <= least(priced(shape, 60, 40)) + 1e-6


def test_a_machine_whose_floor_is_not_known_is_not_bid_on(shape: AuctionShape) -> None:
    quoted = priced(shape, 80, 40, SpotMachine("a", None))
    assert (quoted.bids, quoted.patient) == ((), None)
    assert quoted.on_demand.cost > 0


def test_the_echo_of_our_own_bid_is_not_chased(shape: AuctionShape) -> None:
    quoted = priced(shape, 80, 40, SpotMachine("a", None), held=Held.RUNNING, machine="a", is_set_up=True, bid=0.22)
    assert quoted.bids == ()
    assert quoted.stay is not None
    assert quoted.stay.bid == 0.22


def test_a_held_machine_that_is_gone_can_be_kept_or_left(shape: AuctionShape) -> None:
    quoted = priced(shape, 80, 40, SpotMachine("a", None), held=Held.PAUSED, machine="a", is_set_up=True)
    assert quoted.keep is not None
    assert quoted.stay is None


def test_another_machine_must_win_by_a_margin(shape: AuctionShape) -> None:
    position = Position(90 * STEP_S, 40 * STEP_S, held=Held.RUNNING, machine="b", is_set_up=True, bid=0.26)
    quoted = quotes(auction_tables(shape), position, (SpotMachine("b", 0.26), SpotMachine("y", 0.2)))
    assert choice(quoted, position, Margins(move=0.0), STEP_S).machine == "y"
    assert choice(quoted, position, Margins(move=1000.0), STEP_S).machine == "b"


def test_waiting_must_promise_to_save_a_share() -> None:
    spot, waiting = Quote(1.0, "a", 0.2, 0.2), Quote(0.95)
    quoted = Quotes(Quote(2.0), waiting, None, None, (spot,), None, None, is_forced=False)
    position = Position(60 * STEP_S, 40 * STEP_S)
    assert choice(quoted, position, Margins(wait=0.04), STEP_S) is waiting
    assert choice(quoted, position, Margins(wait=0.06), STEP_S) is spot


@pytest.mark.parametrize("left_s", [30.0, 120.0, 290.0])
def test_a_machine_is_not_left_for_a_last_bit_of_work(shape: AuctionShape, left_s: float) -> None:
    """However little it is, a start elsewhere costs what it costs."""
    of = seen_in_part(shape)
    position = Position(90 * STEP_S, left_s, 2 * STEP_S, held=Held.RUNNING, machine="b", is_set_up=True, bid=0.35)
    quoted = quotes(auction_tables(of), position, (SpotMachine("b", None), SpotMachine("y", 0.2)))
    assert quoted.stay is not None
    assert choice(quoted, position, Margins(wait=0.0), STEP_S) is quoted.stay
    assert quoted.release.cost > 1.5 * quoted.stay.cost


def test_the_risk_that_no_bid_averts_makes_spot_dearer(shape: AuctionShape) -> None:
    assert least(priced(replace(shape, lost_per_h=0.5), 60, 40)) > least(priced(shape, 60, 40))


def test_equal_shapes_share_one_table_and_equal_tables_agree(shape: AuctionShape) -> None:
    again = replace(shape)
    assert auction_tables(again) is auction_tables(shape)
    assert AuctionTables(again).start == auction_tables(shape).start


def lowered(of: AuctionShape, hours: float, bid: float = 0.3, **position: Any) -> Quotes:
    """``b``, whose calm floor is 0.2, runs unseen under a bid that is so old."""
    position = {"held": Held.RUNNING, "machine": "b", "is_set_up": True, "bid": bid, **position}
    return priced(of, 90, 40, SpotMachine("b", None), bid_age_s=hours * 3600, **position)


def test_a_dear_bid_is_lowered_once_the_floor_has_likely_fallen(shape: AuctionShape) -> None:
    of = seen_in_part(shape)
    position = Position(90 * STEP_S, 40 * STEP_S, held=Held.RUNNING, machine="b", is_set_up=True, bid=0.3)
    risks = []
    for hours in (0.0, 0.5, 1.0):
        quoted = lowered(of, hours)
        assert quoted.reduce_bid is not None
        assert quoted.reduce_bid.machine == "b"
        assert 0.2 <= quoted.reduce_bid.bid <= 0.22
        risks.append(quoted.reduce_bid.risk)
    assert risks == sorted(risks, reverse=True)
    assert risks[0] > 0.5 > risks[-1]
    margins = Margins(wait=0.05, lower=0.05)
    assert choice(quoted, position, margins, STEP_S) is quoted.reduce_bid
    at_once = lowered(of, 0)
    assert choice(at_once, position, margins, STEP_S) is at_once.stay, "so much at risk would have to save more"


def test_a_bid_is_lowered_only_where_it_can_be_and_pays(shape: AuctionShape) -> None:
    of = seen_in_part(shape)
    assert lowered(of, 12, bid=0.203).reduce_bid is None, "it is as good as calm"
    assert lowered(of, 12, pending_s=60.0).reduce_bid is None, "it has not begun"
    assert lowered(of, 12, held=Held.PAUSED).reduce_bid is None
    assert lowered(of, 12, machine="new").reduce_bid is None, "nothing is known of it"
    shown = priced(shape, 90, 40, SpotMachine("b", 0.3), held=Held.RUNNING, machine="b", bid=0.3, bid_age_s=43200.0)
    assert shown.reduce_bid is None, "its floor is seen"


def test_a_lowered_bid_keeps_its_distance_from_the_calm_floor(shape: AuctionShape) -> None:
    of = seen_in_part(shape)
    position = Position(90 * STEP_S, 40 * STEP_S, held=Held.RUNNING, machine="b", bid=0.36, bid_age_s=43200.0)
    near, far = (
        quotes(auction_tables(of), position, (SpotMachine("b", None),), least).reduce_bid for least in (1.0, 1.2)
    )
    assert near is not None
    assert far is not None
    assert near.bid < 0.21 < far.bid == pytest.approx(0.24)


def test_where_a_fall_is_not_seen_a_dear_bid_is_paid_on(shape: AuctionShape) -> None:
    def staying(of: AuctionShape) -> float:
        quoted = priced(of, 90, 40, SpotMachine("b", 0.3), held=Held.RUNNING, machine="b", is_set_up=True, bid=0.3)
        assert quoted.stay is not None
        return quoted.stay.cost

    assert staying(replace(shape, shows_running=False)) > staying(shape) * 1.01


def test_where_nothing_is_to_be_had_waiting_is_not_for_what_was_usual(shape: AuctionShape) -> None:
    row, away = floors(1), [*floors(2)]
    for step in range(300, 700):
        row[step] = away[step] = nan
    sparse = replace(shape, floors=estimate({"a": row, "b": away}, STEP_S, ON_DEMAND, FloorFit()))
    empty = quotes(auction_tables(sparse), Position(60 * STEP_S, 40 * STEP_S), ())
    some = priced(sparse, 60, 40)
    assert empty.release.cost > some.release.cost * 1.1
    assert empty.release.cost > 0.9 * empty.on_demand.cost


def test_of_two_machines_at_one_price_the_one_that_usually_costs_less_is_safer(shape: AuctionShape) -> None:
    rng = random.Random(3)

    def pressed(base: float) -> list[float]:
        row, left = list[float](), 0
        for _ in range(2000):
            left = left - 1 if left else rng.randint(6, 18) if rng.random() < 0.05 else 0
            row.append(base * (1.3 if left else 1.0))
        return row

    rows = {"cheap": pressed(0.2), "dear": pressed(0.26)}
    outlook = estimate(rows, STEP_S, ON_DEMAND, FloorFit(most_own=0))
    told = replace(shape, floors=outlook, shows_running=False)
    cheap, dear = priced(told, 60, 38, SpotMachine("cheap", 0.26), SpotMachine("dear", 0.26)).bids
    assert cheap.cost < dear.cost
    assert cheap.bid <= dear.bid


def test_a_floor_of_nothing_is_not_bid_on(shape: AuctionShape) -> None:
    quoted = priced(shape, 80, 40, SpotMachine("a", 0.0), SpotMachine("b", 0.2))
    assert [quote.machine for quote in quoted.bids] == ["b"]
    held = priced(shape, 80, 40, SpotMachine("a", 0.0), held=Held.PAUSED, machine="a", is_set_up=True)
    assert held.keep is not None


def test_scarce_slack_counts_for_less_where_a_market_is_seen_in_part(
    shape: AuctionShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    def discounts(market: AuctionShape) -> dict[int, float]:
        """Slack in steps → by what share a start is read as cheaper than its table has it."""
        tables, work = auction_tables(market), 30
        slacks = (1, 14, 40)
        read = {slack: tables.cost(tables.start, work + slack, work, 0) for slack in slacks}
        with monkeypatch.context() as patch:
            patch.setattr(auction_tables_module, "SLACK_DISCOUNT", 0.0)
            return {slack: 1 - read[slack] / tables.cost(tables.start, work + slack, work, 0) for slack in slacks}

    of_slack = discounts(seen_in_part(shape))
    assert of_slack[1] == 0, "on-demand capacity is forced: there is nothing to be mistaken about"
    assert 0.02 > of_slack[14] > 2 * of_slack[40] > 0
    dear = discounts(seen_in_part(shape, on_demand_price=1.6))
    assert 0 < dear[14] < of_slack[14] / 2
    assert set(discounts(shape).values()) == {0.0}
