"""What ends the hold of a bid that lost on a machine: one that was rented since for no more, none that ran before."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from autopilot.domain.lease import Lease
from autopilot.domain.params import LostBidRules
from autopilot.engine.lost_bids import LostBids
from tests.builders import START, a_lease, an_offer, capabilities

D = Decimal
BID = D("0.23")
LOST_AT = START + timedelta(hours=1)
LATER = LOST_AT + timedelta(minutes=1)
OFFER = an_offer()


def on_that_machine(**changes: Any) -> Lease:
    key = {"provider": OFFER.provider, "machine_id": OFFER.machine_id, "num_gpus": OFFER.num_gpus}
    return a_lease(**({**key, "bid": BID, "last_seen_at": LATER} | changes))


@pytest.fixture
def lost() -> LostBids:
    market: Any = SimpleNamespace(capabilities=capabilities(shows_held_floors=False))
    bids = LostBids({OFFER.provider: market}, LostBidRules())
    bids.add(on_that_machine(), BID, LOST_AT)
    return bids


def test_a_machine_that_was_rented_since_proves_that_the_bid_wins(lost: LostBids) -> None:
    lost.forget_won([on_that_machine(intended_at=LATER)])
    assert lost.on([OFFER], LATER) == ()


def test_another_gpu_of_the_host_that_ran_all_along_proves_nothing(lost: LostBids) -> None:
    before = lost.on([OFFER], LATER)
    lost.forget_won([on_that_machine(intended_at=START)])
    assert lost.on([OFFER], LATER) == before != ()


def test_a_machine_at_a_higher_bid_proves_nothing(lost: LostBids) -> None:
    lost.forget_won([on_that_machine(intended_at=LATER, bid=BID + D("0.01"))])
    assert lost.on([OFFER], LATER) != ()
