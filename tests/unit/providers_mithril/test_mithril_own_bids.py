"""What our own bids do to the prices that a pool shows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from autopilot.clock import ManualClock
from autopilot.providers.mithril.mapping import Room, room
from autopilot.providers.mithril.own_bids import SHOWN_FOR_S, Own, OwnBids
from autopilot.providers.mithril.wire import BidRow, PriceRow

D = Decimal
NO_OWN_BIDS = Own()
FREE = PriceRow(spot=D(1), minimum=D(1), lowest_allocated=None, wins_now=None, available=2)
FULL = PriceRow(spot=D(1), minimum=D(1), lowest_allocated=D(3), wins_now=None, available=0)


def a_bid(number: int, limit: str = "3", status: str = "Open", name: str = "") -> BidRow:
    return BidRow(f"bid_{number}", name or f"ap1.mine.{number:026}", status, D(limit), 1, "it_x", "us-a", ())


def own_bids(*bids: BidRow) -> tuple[OwnBids, ManualClock]:
    clock = ManualClock()
    made = OwnBids(clock)
    made.observe(bids)
    return made, clock


@pytest.mark.parametrize(
    ("row", "own", "expected"),
    [
        (FREE, NO_OWN_BIDS, Room(D("1.01"), 2)),
        (FREE, Own(frozenset({D(3)}), 1), Room(D("1.01"), 1)),
        (FREE, Own(frozenset({D(3)}), 2), Room(None)),
        (replace(FREE, spot=D(3)), NO_OWN_BIDS, Room(D("3.01"), 2)),
        # What all pay is the limit of a bid of ours that lost.
        (replace(FREE, spot=D(3)), Own(frozenset({D(3)}), 1), Room(D("1.01"), 1)),
        (replace(FREE, wins_now=D("3.01")), Own(frozenset({D(3)})), Room(D("1.01"), 2)),
        (FULL, NO_OWN_BIDS, Room(D("3.01"), 1)),
        (FULL, Own(frozenset({D(5)})), Room(D("3.01"), 1)),
        # The lowest that has a machine is ours, as the market says it in either way.
        (FULL, Own(frozenset({D(3)})), Room(None)),
        (replace(FULL, wins_now=D("3.01")), Own(frozenset({D(3)})), Room(None)),
        # One of ours waits there already.
        (FULL, Own(frozenset({D(2)}), 1), Room(None)),
        (replace(FULL, lowest_allocated=None), NO_OWN_BIDS, Room(None)),
    ],
)
def test_the_floor_is_what_others_make_it_for_as_many_bids_as_can_win(row: PriceRow, own: Own, expected: Room) -> None:
    assert room(row, own) == expected


def test_only_ours_count_and_only_in_their_pool() -> None:
    bids, _ = own_bids(a_bid(1), a_bid(2, name="a colleague's"), a_bid(3, status="Paused"))
    assert bids.of("us-a", "it_x") == Own(frozenset({D(3)}), 1)
    assert bids.of("us-b", "it_x") == NO_OWN_BIDS


def test_a_bid_without_a_region_counts_in_each() -> None:
    bids, _ = own_bids(replace(a_bid(1), region=""))
    assert bids.of("us-a", "it_x") == bids.of("us-b", "it_x") == Own(frozenset({D(3)}), 1)
    assert bids.of("us-a", "it_y") == NO_OWN_BIDS


def test_a_bid_that_has_just_won_takes_room_until_prices_show_it() -> None:
    bids, clock = own_bids(a_bid(1))
    bids.note(a_bid(1, status="Allocated"))
    assert bids.of("us-a", "it_x").waiting == 1
    clock.advance(SHOWN_FOR_S)
    bids.observe([a_bid(1, status="Allocated")])
    assert bids.of("us-a", "it_x") == Own(frozenset({D(3)}), 0)


def test_a_limit_that_holds_no_more_is_known_for_as_long_as_prices_may_show_it() -> None:
    bids, clock = own_bids(a_bid(1), a_bid(2, "4"))
    bids.note(a_bid(1, "7"))
    bids.forget("bid_2")
    assert bids.of("us-a", "it_x") == Own(frozenset({D(3), D(4), D(7)}), 1)
    clock.advance(SHOWN_FOR_S)
    assert bids.of("us-a", "it_x") == Own(frozenset({D(7)}), 1)


def test_of_two_that_wait_the_older_one_alone_is_told_what_wins() -> None:
    older, younger = a_bid(1), a_bid(2, "4")
    bids, _ = own_bids(older, younger)
    rivals = replace(FULL, lowest_allocated=D(9))
    assert room(rivals, bids.beside(older)) == Room(D("9.01"), 1)
    assert room(rivals, bids.beside(younger)) == Room(None)
