"""What ends the hold of a bid that lost on a machine: one that was rented since for no more, none that ran before."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from autopilot.domain.lease import Lease
from autopilot.domain.lost_bids import LostBid
from autopilot.domain.params import LostBidRules
from autopilot.engine.lost_bids import LostBids
from tests.builders import START, a_lease, an_offer, capabilities

D = Decimal
BID = D("0.23")
LOST_AT = START + timedelta(hours=1)
LATER = LOST_AT + timedelta(minutes=1)
OFFER = an_offer()
UNIT = D("0.001")


def on_that_machine(**changes: Any) -> Lease:
    known: dict[str, Any] = {"bid": BID, "last_seen_at": LATER}
    known |= {"provider": OFFER.provider, "machine_id": OFFER.machine_id, "num_gpus": OFFER.num_gpus}
    return a_lease(**(known | changes))


@pytest.fixture
def lost() -> LostBids:
    market: Any = SimpleNamespace(capabilities=capabilities(shows_held_floors=False))
    bids = LostBids({OFFER.provider: market}, LostBidRules())
    bids.add(on_that_machine(), BID, LOST_AT)
    return bids


def on_offer(lost: LostBids) -> tuple[LostBid, ...]:
    return lost.raise_floors((OFFER,), LATER, UNIT).lost


def test_a_machine_that_was_rented_since_proves_that_the_bid_wins(lost: LostBids) -> None:
    lost.forget_won([on_that_machine(intended_at=LATER)])
    assert on_offer(lost) == ()


def test_another_gpu_of_the_host_that_ran_all_along_proves_nothing(lost: LostBids) -> None:
    before = on_offer(lost)
    lost.forget_won([on_that_machine(intended_at=START)])
    assert on_offer(lost) == before != ()


def test_a_machine_at_a_higher_bid_proves_nothing(lost: LostBids) -> None:
    lost.forget_won([on_that_machine(intended_at=LATER, bid=BID + D("0.01"))])
    assert on_offer(lost) != ()


def test_floors_are_raised_once_and_again_after_a_change(lost: LostBids) -> None:
    offers = (OFFER,)
    first = lost.raise_floors(offers, LATER, UNIT)
    assert first.offers[0].floor == BID + UNIT
    again = lost.raise_floors(offers, LATER + timedelta(minutes=1), UNIT)
    assert again.offers is first.offers
    lost.add(on_that_machine(), BID + D("0.1"), LATER)
    assert lost.raise_floors(offers, LATER, UNIT).offers[0].floor == BID + D("0.1") + UNIT
    assert lost.raise_floors(tuple(list(offers)), LATER, UNIT).offers[0].floor == BID + D("0.1") + UNIT


def test_where_nothing_has_lost_the_offers_stay_the_same_tuple() -> None:
    offers = (OFFER,)
    assert LostBids({}, LostBidRules()).raise_floors(offers, LATER, UNIT).offers is offers
