"""No bid of ours is made, or left, against another of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autopilot.domain.actions import Acquire, ChangeBid, Release
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market, Ours
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from autopilot.policy.own_bids import leave_room, ours_in_pools
from tests.builders import D, a_job, a_lease, a_market, a_paused_lease, a_spec, an_intent, an_offer, at

POOL = "pool"
P = Params()


def of_another(id: str = "lease-9", **changes: Any) -> Lease:
    return a_lease(id, **{"job_id": "job-9", "machine_id": POOL, "bid": D("0.300"), **changes})


def market(*others: Lease, floor: str | None = "0.200") -> Market:
    offers = () if floor is None else (an_offer(POOL, floor=D(floor), on_demand_price=None, room=2),)
    seen = a_market(*offers, bids_set_price=True, bills_at_bid=False, is_pooled=True)
    return replace(seen, ours=ours_in_pools(others, "job-1", seen.providers))


def test_bids_that_no_list_shows_yet_take_room() -> None:
    offer = an_offer(POOL, room=2)
    made = [an_intent(f"lease-{number}", machine_id=POOL) for number in range(2)]
    assert leave_room([offer], []) == (offer,)
    assert leave_room([offer], made[:1]) == (replace(offer, room=1),)
    assert leave_room([offer], made) == (replace(offer, room=0, floor=None),)


def test_what_takes_no_room_there() -> None:
    offer = an_offer(POOL, room=1)
    elsewhere, listed = an_intent(machine_id="other"), of_another()
    on_demand = an_intent(machine_id=POOL, capacity_type=CapacityType.ON_DEMAND)
    assert leave_room([offer], [elsewhere, listed, on_demand]) == (offer,)
    told_nothing = an_offer(POOL)
    assert leave_room([told_nothing], [an_intent(machine_id=POOL)]) == (told_nothing,)


def test_ours_are_those_that_have_a_machine_of_the_pool_for_another_job() -> None:
    cheap = of_another("lease-8", bid=D("0.250"))
    waiting = a_paused_lease("lease-7", job_id="job-7", machine_id=POOL)
    own = a_lease("lease-1", machine_id=POOL)
    assert market(of_another(), cheap, waiting, own).ours == {("vastai", POOL): Ours(2, D("0.250"))}
    plain = a_market()
    assert ours_in_pools([of_another()], "job-1", plain.providers) == {}, "there each pays its own bid"


def test_what_a_bid_does_to_the_price_of_ours_is_part_of_its_cost() -> None:
    """A cent more an hour elsewhere is cheaper than to make three others pay what the pool costs then."""
    job = a_job(spec=a_spec(max_bid=D(2)))
    dear = of_another(bid=D("0.100"))
    others = [replace(dear, id=f"lease-{number}") for number in range(3)]
    elsewhere = an_offer("elsewhere", floor=D("0.210"), on_demand_price=None)

    def rented(*ours: Lease) -> str:
        seen = market(*ours)
        (action,) = decide(job, replace(seen, offers=(*seen.offers, elsewhere)), at(0), P).actions
        assert isinstance(action, Acquire)
        return action.offer.machine_id

    assert rented() == POOL
    assert rented(*others) == "elsewhere"


def lost(**changes: Any) -> Lease:
    return a_paused_lease(machine_id=POOL, **({"price_to_win": None} | changes))


def test_a_bid_that_lost_beside_ours_is_withdrawn() -> None:
    job = a_job(lost(), spec=a_spec(max_bid=D(2)))
    assert decide(job, market(of_another(), floor=None), at(0), P).actions == (Release("lease-1", Reason.OUTBID),)


def test_a_bid_that_lost_where_we_have_nothing_waits_and_is_not_raised_in_the_dark() -> None:
    job = a_job(lost(), spec=a_spec(max_bid=D(2)))
    assert decide(job, market(floor=None), at(0), P).actions == ()


def test_a_bid_that_lost_is_raised_above_a_rival_of_whom_is_known_what_beats_him() -> None:
    job = a_job(lost(price_to_win=D("0.400")), spec=a_spec(max_bid=D(2)))
    (action,) = decide(job, market(floor=None), at(0), P).actions
    assert isinstance(action, ChangeBid)
    assert action.bid >= D("0.400")
