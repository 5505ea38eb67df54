"""A market without a certificate, used within its allowance: what is proposed there, and how its machines are left."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.actions import Acquire, Action, ChangeBid, Promote, Release, SaveAndStop
from autopilot.domain.certificate import NO_PROOF, Lack, UseProof
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, Role
from autopilot.domain.market import Market, UncertifiedRoom
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from autopilot.policy.eligibility import judge
from autopilot.policy.guard import guard
from autopilot.policy.purse import MarketPurse
from autopilot.policy.uncertified import price_least_start
from tests.builders import (
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_new_home,
    a_paused_lease,
    a_spec,
    an_offer,
    exposure,
    limits,
)
from tests.leases import change_lease

P = Params()
ALLOWANCE = D(5)


def a_market_with(
    left: str | int | Decimal,
    *offers: Offer,
    is_taken: bool = False,
    lack: Lack = Lack.MISSING,
    proof: UseProof = NO_PROOF,
) -> Market:
    """vast.ai without a certificate, and RunPod with one."""
    market = a_market(*(offers or (an_offer(),)))
    view = market.providers["vastai"]
    room = UncertifiedRoom(ALLOWANCE, D(left), is_taken, proof=proof)
    return replace(market, providers={"vastai": replace(view, lack=lack, uncertified=room), "runpod": view})


def proposed(job: Job, market: Market) -> tuple[Action, ...]:
    """What is decided. The guard, with the same room, lets all of it pass."""
    decision = decide(job, market, START, P)
    room = market.providers["vastai"].uncertified
    assert room is not None
    purse = MarketPurse(ALLOWANCE, D(0), "vastai")
    unspent = purse.left(job.leases, P)
    assert unspent is not None
    account = exposure(*job.leases, market_purses={"vastai": replace(purse, spent=unspent - room.left)})
    allowed, vetoes = guard(job, decision, market, account, limits(), START, P)
    assert vetoes == ()
    assert allowed == decision.actions
    return allowed


def conditions(job: Job, market: Market) -> list[str | None]:
    return [None if unfit is None else unfit.condition for _, unfit in judge(job, market, START, P)]


def test_an_offer_needs_its_reserve_and_some_work_within_what_is_left() -> None:
    job, offer = a_job(), an_offer()
    needed = price_least_start(job, offer, a_market_with(0), P)
    assert conditions(job, a_market_with(needed)) == [None]
    short = a_market_with(needed - D("0.000000001"))
    ((_, unfit),) = judge(job, short, START, P)
    assert unfit is not None
    assert (unfit.condition, unfit.has, unfit.wanted) == ("over_uncertified", needed - D("0.000000001"), needed)
    assert conditions(job, a_market_with(0, an_offer(provider="runpod"))) == [None]
    assert conditions(replace(job, certifies="vastai"), short) == [None]
    brief = replace(job, spec=a_spec(work_estimate=timedelta(minutes=6)))
    assert price_least_start(brief, offer, short, P) < needed


def test_the_one_machine_there_may_be_another_job_s() -> None:
    assert conditions(a_job(), a_market_with(4, is_taken=True)) == ["one_uncertified"]
    assert conditions(a_job(), a_market_with(4, lack=Lack.CLAIM_BROKEN)) == ["not_certified"]


def test_the_cheapest_that_fits_is_rented_and_none_that_is_only_faster() -> None:
    offers = an_offer("dear", floor=D("0.210")), an_offer("cheap", floor=D("0.200"))
    (take,) = proposed(a_job(), a_market_with(4, *offers))
    assert isinstance(take, Acquire)
    assert take.offer.machine_id == "cheap"


def test_another_market_is_taken_where_the_allowance_does_not_do() -> None:
    here, there = an_offer(), an_offer("elsewhere", provider="runpod", floor=D("0.300"))
    (take,) = proposed(a_job(), a_market_with("0.01", here, there))
    assert isinstance(take, Acquire)
    assert take.offer.provider == "runpod"
    assert proposed(a_job(), a_market_with("0.01", here)) == ()


def test_a_job_with_a_machine_there_rents_none_beside_it() -> None:
    job = a_job(a_lease(bid=D("0.500")), spec=a_spec(work_estimate=timedelta(hours=40)))
    cheaper = a_market_with(4, an_offer("cheap", floor=D("0.050")))
    assert not any(isinstance(action, Acquire) for action in proposed(job, cheaper))


def test_a_machine_that_no_raise_brings_back_is_left_at_once_and_only_then_another_is_rented() -> None:
    """As with a certificate, but one after the other."""
    displaced = a_paused_lease(price_to_win=None, pause_cause=Reason.OUTBID)
    there = a_market_with(4, an_offer("elsewhere"))
    job = a_job(displaced, status=JobStatus.RECOVERING)
    (left,) = proposed(job, there)
    assert left == Release(displaced.id, Reason.OUTBID)
    assert proposed(job, a_market_with(4, an_offer(displaced.machine_id))) == (), "there is nothing else"
    assert proposed(job, a_market_with("0.0001", an_offer("elsewhere"))) == (), "the allowance pays for nothing else"
    (take,) = proposed(a_job(status=JobStatus.RECOVERING), there)
    assert isinstance(take, Acquire)


def test_a_raise_that_it_does_not_cover_is_not_proposed() -> None:
    job = a_job(a_paused_lease(price_to_win=D("0.350"), pause_cause=Reason.OUTBID), status=JobStatus.RECOVERING)
    its_own = an_offer(job.leases[0].machine_id)
    assert any(isinstance(action, ChangeBid) for action in proposed(job, a_market_with(4, its_own)))
    assert not any(isinstance(action, ChangeBid) for action in proposed(job, a_market_with("0.0001", its_own)))


def saving(**changes: object) -> Lease:
    return change_lease(a_lease(), role=Role.SAVE_AND_STOP, stop_ordered_at=START, **changes)


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        ((a_lease(),), (SaveAndStop("lease-1", Reason.OVER_UNCERTIFIED),)),
        ((saving(),), ()),
        ((saving(agent_saved=True),), (Release("lease-1", Reason.OVER_UNCERTIFIED),)),
        ((a_paused_lease(),), (Release("lease-1", Reason.OVER_UNCERTIFIED),)),
        ((a_lease(provider="runpod"), a_new_home()), (Release("lease-2", Reason.OVER_UNCERTIFIED),)),
        ((a_lease(), a_new_home(provider="runpod")), (SaveAndStop("lease-1", Reason.OVER_UNCERTIFIED),)),
        ((a_new_home(provider="runpod"),), (Promote("lease-2", Reason.PROMOTED),)),
    ],
)
def test_a_machine_for_which_nothing_is_left_saves_and_goes(
    leases: tuple[Lease, ...], expected: tuple[Action, ...]
) -> None:
    assert proposed(a_job(*leases), a_market_with(0)) == expected


def test_a_machine_rented_under_the_certificate_that_ended_goes_on_and_may_be_raised() -> None:
    market = a_market_with(0)
    view = market.providers["vastai"]
    assert view.uncertified is not None
    ended = replace(view, uncertified=replace(view.uncertified, since=START + timedelta(seconds=1)))
    market = replace(market, providers=dict(market.providers) | {"vastai": ended})
    assert not any(isinstance(action, SaveAndStop) for action in decide(a_job(a_lease()), market, START, P).actions)
    outbid = a_job(a_paused_lease(price_to_win=D("0.350"), pause_cause=Reason.OUTBID), status=JobStatus.RECOVERING)
    assert any(isinstance(action, ChangeBid) for action in decide(outbid, market, START, P).actions)
