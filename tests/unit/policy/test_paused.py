"""A paused machine: raise, wait or leave."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Action, ChangeBid, Release, SetStatus, Start
from autopilot.domain.instance import InstanceStatus, Stopper
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import BidRules, Deadline, Params, Waiting
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from tests.builders import (
    HOUR,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_paused_lease,
    a_spec,
    an_offer,
    at,
    play,
    seen,
)

P = Params(
    bids=BidRules(max_rebids=2, rebid_settle_s=90),
    waiting=Waiting(longest_pause_s=900),
    deadline=Deadline(least_stretch=1.0),
)
ELSEWHERE = an_offer("elsewhere", floor=D("0.500"))
NOTHING = a_market()


def acts(job: Job, market: Market = NOTHING, now: float = 0, params: Params = P) -> tuple[Action, ...]:
    return decide(job, market, at(now), params).actions


def raised(job: Job, when: float) -> Job:
    """The job after the raise that the policy asks for, taken by the market, in vain so far."""
    (action,) = acts(job, now=when)
    assert isinstance(action, ChangeBid)
    lease = job.leases[0]
    return play(job, e.BidIntended(lease.id, action.bid, at(when)), e.BidChanged(lease.id, action.bid, at(when + 1)))


def stopped(job: Job, when: float, to_win: str | None = None, **changes: Any) -> Job:
    """The job after its market has shown its machine stopped."""
    shown = {"bid": job.leases[0].bid, "price_to_win": None if to_win is None else D(to_win)}
    return play(job, seen(job.leases[0], InstanceStatus.STOPPED, at(when), **(shown | changes)))


def test_an_outbid_is_answered_by_a_raise_at_once() -> None:
    assert acts(a_job(a_paused_lease())) == (ChangeBid("lease-1", D("0.332"), Reason.OUTBID),)


def test_a_bid_that_was_lowered_is_not_raised_before_a_higher_one_is_shown() -> None:
    job = play(a_job(a_lease(bid=D("0.300"))), e.BidIntended("lease-1", D("0.200"), at(0)))
    job = stopped(play(job, e.BidChanged("lease-1", D("0.200"), at(1))), 40)
    assert acts(job, now=41) == (Start("lease-1", Reason.UNKNOWN),)
    assert acts(stopped(job, 50, "0.250"), now=51) == (ChangeBid("lease-1", D("0.275"), Reason.OUTBID),)


@pytest.mark.parametrize("cause", [Reason.UNKNOWN, Reason.PERMIT, Reason.PAID_IN])
def test_what_no_bid_has_stopped_is_started_once_and_then_left_where_there_is_something_else(cause: Reason) -> None:
    job = a_job(a_paused_lease(pause_cause=cause, price_to_win=None))
    assert acts(job) == acts(job, a_market(ELSEWHERE)) == (Start("lease-1", cause),)
    started = play(job, e.StartIntended("lease-1", at(0)))
    assert acts(started, a_market(ELSEWHERE), 60) == (), "the start gets its time"
    assert acts(started, a_market(ELSEWHERE), 90) == (Release("lease-1", cause),)
    assert acts(started, now=90) == (Start("lease-1", cause),), "there is nothing else"
    assert acts(started, now=900) == (Release("lease-1", cause),)
    assert acts(stopped(started, 91, "0.400"), now=91) == (ChangeBid("lease-1", D("0.440"), Reason.OUTBID),)


def test_an_unknown_stop_is_not_waited_for_where_something_is_cheaper() -> None:
    job = a_job(a_paused_lease(pause_cause=Reason.UNKNOWN, price_to_win=None))
    cheap = a_market(an_offer("cheap", floor=D("0.100")))
    assert acts(job, cheap) == (Release("lease-1", Reason.UNKNOWN),)


def test_what_its_user_stopped_is_left_alone_then_given_back_and_the_job_parked() -> None:
    lease = a_paused_lease(pause_cause=Reason.CONSOLE, price_to_win=None)
    pressed = a_job(lease, spec=a_spec(work_estimate=HOUR, deadline=START + 1.1 * HOUR))
    for job in (a_job(lease), pressed):
        for market in (NOTHING, a_market(ELSEWHERE), a_market(an_offer("cheap", floor=D("0.100")))):
            assert acts(job, market, 899) == ()
            parked = (Release("lease-1", Reason.CONSOLE), SetStatus(JobStatus.PARKED, Reason.CONSOLE))
            assert acts(job, market, 900) == parked


def test_a_virtual_machine_that_its_user_stopped_before_its_agent_spoke_is_left_alone_as_well() -> None:
    job = stopped(a_job(a_lease(agent_boot=0)), 30, stopped_by=Stopper.USER)
    assert acts(job, a_market(ELSEWHERE, boots_vm=True), 60) == ()


def test_a_machine_that_has_failed_is_given_back() -> None:
    job = stopped(a_job(a_lease()), 30, "0.400", stopped_by=Stopper.HOST)
    assert acts(job, now=30) == (Release("lease-1", Reason.HOST_LOST),)


def test_a_machine_that_was_displaced_is_waited_for_or_left_and_not_bid_for() -> None:
    job = stopped(a_job(a_lease()), 30, "0.250", stopped_by=Stopper.BIDDER)
    assert acts(job, now=30) == ()
    assert acts(job, a_market(ELSEWHERE), 30) == (Release("lease-1", Reason.DISPLACED),)


def test_rungs_are_climbed_one_by_one_until_they_are_used_up() -> None:
    job = raised(a_job(a_paused_lease()), 0)
    assert acts(job, now=60) == (), "the raise gets its time"
    assert acts(job, now=95) == (), "nothing higher is known: wait"
    job = raised(stopped(job, 100, "0.350"), 100)
    assert job.leases[0].bid == D("0.385")
    assert acts(job, now=150) == ()
    job = stopped(job, 195, "0.400")
    assert acts(job, now=200) == (), "nothing better is known: wait"
    assert acts(job, a_market(ELSEWHERE), 200) == (Release("lease-1", Reason.OUTBID),)
    assert acts(job, now=900) == (Release("lease-1", Reason.OUTBID),)


def test_a_machine_that_a_known_bid_holds_was_not_displaced() -> None:
    job = raised(stopped(raised(a_job(a_paused_lease()), 0), 99, "0.340"), 100)
    assert acts(stopped(job, 190, "0.700"), a_market(ELSEWHERE), 200) == (Release("lease-1", Reason.OUTBID),)
    assert acts(stopped(job, 190, "0.300"), a_market(ELSEWHERE), 200) == (), "it may yet come back"
    assert acts(stopped(job, 190, "0.300"), a_market(ELSEWHERE), 281) == (Release("lease-1", Reason.DISPLACED),)


def test_rungs_start_over_once_it_has_run() -> None:
    job = raised(a_job(a_paused_lease()), 0)
    job = play(job, seen(job.leases[0], InstanceStatus.RUNNING, at(30)))
    assert acts(stopped(job, 60, "0.350"), now=61) == (ChangeBid("lease-1", D("0.385"), Reason.OUTBID),)


def test_a_raise_that_costs_more_than_leaving_is_not_made() -> None:
    cheap = an_offer("cheap", floor=D("0.100"))
    assert acts(a_job(a_paused_lease()), a_market(cheap)) == (Release("lease-1", Reason.OUTBID),)


@pytest.mark.parametrize(
    ("changes", "spec_changes"),
    [
        ({"bid": D("0.540")}, {}),  # 90 % of the on-demand price
        ({"on_demand_price": None}, {}),
        ({}, {"max_bid": D("0.300")}),
        ({}, {"max_hourly": D("0.300")}),
        ({"capacity_type": CapacityType.ON_DEMAND}, {}),
    ],
    ids=["at the ceiling", "no ceiling known", "max_bid", "max_hourly", "on demand"],
)
def test_no_raise_beyond_the_ceiling(changes: dict[str, Any], spec_changes: dict[str, Any]) -> None:
    job = a_job(a_paused_lease(**changes), spec=a_spec(**spec_changes))
    assert acts(job) == ()
    assert acts(job, now=899) == ()
    assert acts(job, now=900) == (Release("lease-1", Reason.OUTBID),)


def test_a_market_without_rebids_is_waited_for_or_left() -> None:
    assert acts(a_job(a_paused_lease()), a_market(can_rebid=False)) == ()
    market = a_market(ELSEWHERE, can_rebid=False)
    assert acts(a_job(a_paused_lease()), market) == (Release("lease-1", Reason.OUTBID),)


def test_a_machine_is_not_left_for_on_demand_capacity_that_nothing_asks_for() -> None:
    dedicated = a_market(an_offer("dedicated", floor=None), can_rebid=False)
    assert acts(a_job(a_paused_lease()), dedicated) == ()
    job = a_job(a_paused_lease(), spec=a_spec(work_estimate=HOUR, deadline=START + 1.1 * HOUR))
    assert acts(job, dedicated) == (Release("lease-1", Reason.OUTBID),)


def test_without_credit_nothing_helps_and_nothing_is_given_up() -> None:
    job = a_job(a_paused_lease(pause_cause=Reason.OUT_OF_CREDIT))
    for now in (0, 1000, 100_000):
        assert acts(job, a_market(ELSEWHERE), now) == ()


def test_once_the_user_has_paid_in_the_machine_is_started_at_its_old_bid() -> None:
    lease = a_paused_lease(pause_cause=Reason.OUT_OF_CREDIT, price_to_win=None)
    job = play(a_job(lease), seen(lease, InstanceStatus.STOPPED, at(3600), out_of_credit=True))
    assert acts(job, now=3600) == ()
    job = play(job, seen(lease, InstanceStatus.STOPPED, at(7200)))
    assert acts(job, now=7200) == (Start("lease-1", Reason.PAID_IN),)
    started = play(job, e.StartIntended("lease-1", at(7200)))
    assert acts(started, now=7260) == (), "the start gets its time"
    beaten = stopped(started, 7290, "0.310")
    assert acts(beaten, now=7300) == (ChangeBid("lease-1", D("0.341"), Reason.OUTBID),), "somebody has bid since"
    failed = play(started, e.StartFailed("lease-1", at(7201)))
    assert acts(failed, now=7215) == (Start("lease-1", Reason.PAID_IN),)
    assert acts(failed, now=7200 + 900) == (Release("lease-1", Reason.PAID_IN),)


@pytest.mark.parametrize(
    ("to_win", "others", "expected"),
    [
        (D("0.290"), (), Start("lease-1", Reason.FLOOR_MOVED)),
        (D("0.300"), (), Start("lease-1", Reason.FLOOR_MOVED)),
        (D("0.310"), (), ChangeBid("lease-1", D("0.341"), Reason.OUTBID)),
        (D("0.290"), (an_offer("elsewhere", floor=D("0.010")),), Release("lease-1", Reason.DISPLACED)),
    ],
)
def test_a_machine_that_does_not_resume_by_itself_is_started_once_its_bid_would_win(
    to_win: Decimal, others: tuple[Offer, ...], expected: Action
) -> None:
    job = a_job(a_paused_lease(bid=D("0.300")))
    job = play(job, seen(job.leases[0], InstanceStatus.STOPPED, at(0), bid=D("0.300"), price_to_win=to_win))
    assert acts(job, a_market(*others, resumes_by_itself=False)) == (expected,)


def test_a_start_for_which_there_was_no_room_is_tried_again_after_a_while_and_not_for_ever() -> None:
    market = a_market(resumes_by_itself=False)
    job = a_job(a_paused_lease(bid=D("0.300")))
    job = stopped(stopped(job, 0, "0.400"), 10, "0.300")
    assert acts(job, market, now=10) == (Start("lease-1", Reason.FLOOR_MOVED),)
    job = play(job, e.StartIntended("lease-1", at(10)), e.StartFailed("lease-1", at(11), at_once=False))
    assert acts(job, market, now=180) == ()
    assert acts(job, market, now=200) == (Start("lease-1", Reason.FLOOR_MOVED),)
    assert acts(job, market, now=900) == (Release("lease-1", Reason.OUTBID),)


def test_a_machine_on_demand_is_started_again_as_well() -> None:
    lease = a_paused_lease(pause_cause=Reason.OUT_OF_CREDIT, capacity_type=CapacityType.ON_DEMAND)
    job = play(a_job(lease), seen(lease, InstanceStatus.STOPPED, at(7200)))
    assert acts(job, a_market(ELSEWHERE), 7200) == (Start("lease-1", Reason.PAID_IN),)


@pytest.mark.parametrize(
    ("to_win", "bid"),
    [
        pytest.param("0.301", "0.332", id="a tenth over what wins, in whole steps"),
        pytest.param("0.500", "0.539", id="no higher than the ceiling"),
        pytest.param("0.539", "0.539", id="at the ceiling"),
    ],
)
def test_a_bid_over_what_is_known_to_win_is_made(to_win: str, bid: str) -> None:
    job = play(a_job(a_lease()), seen(a_lease(), InstanceStatus.STOPPED, at(0), price_to_win=D(to_win)))
    assert acts(job, now=0) == (ChangeBid("lease-1", D(bid), Reason.OUTBID),)


def test_no_raise_where_what_wins_is_above_the_ceiling() -> None:
    job = play(a_job(a_lease()), seen(a_lease(), InstanceStatus.STOPPED, at(0), price_to_win=D("0.55")))
    assert acts(job, now=0) == ()
    assert acts(job, a_market(ELSEWHERE)) == (Release("lease-1", Reason.OUTBID),)


def test_what_wins_is_forgotten_when_the_market_says_it_no_longer() -> None:
    lease = a_lease()
    job = play(a_job(lease), seen(lease, InstanceStatus.STOPPED, at(0), price_to_win=D("0.301")))
    job = play(job, seen(lease, InstanceStatus.STOPPED, at(15)))
    assert job.leases[0].observed.price_to_win is None


def test_a_raise_that_fails_for_good_uses_up_its_rung() -> None:
    """The host is full: not ten vain tries in a quarter of an hour."""
    job, tries = a_job(a_paused_lease()), []
    for now in range(0, 900, 15):
        for action in acts(job, now=now):
            tries.append(now)
            assert isinstance(action, ChangeBid)
            job = play(job, e.BidIntended("lease-1", action.bid, at(now)))
            job = play(job, e.BidRefused("lease-1", D("0.300"), at(now + 1), is_rung_used=True))
    assert tries == [0, 90]


def test_a_raise_that_was_refused_for_the_moment_is_made_again_at_once() -> None:
    for may_retry in (True, False):
        job = play(a_job(a_paused_lease()), e.BidIntended("lease-1", D("0.332"), at(0)))
        job = play(job, e.BidRefused("lease-1", D("0.300"), at(1), may_retry=may_retry))
        again = (ChangeBid("lease-1", D("0.332"), Reason.OUTBID),)
        assert acts(job, now=15) == (again if may_retry else ())
        assert acts(job, now=91) == again


def test_an_expired_machine_is_given_back() -> None:
    job = a_job(a_paused_lease(pause_cause=Reason.EXPIRING))
    assert acts(job) == (Release("lease-1", Reason.EXPIRING),)


def test_a_pressing_deadline_does_not_wait() -> None:
    lease = a_paused_lease(bid=D("0.540"))
    assert acts(a_job(lease, spec=a_spec(deadline=START + 20 * HOUR))) == ()
    pressed = a_job(lease, spec=a_spec(deadline=START + 10.5 * HOUR))
    assert acts(pressed) == (Release("lease-1", Reason.OUTBID),)


def test_a_raise_that_is_refused_again_and_again_does_not_hold_the_job_for_ever() -> None:
    job, asked = a_job(a_paused_lease()), 0
    for now in range(0, 1200, 30):
        actions = acts(job, now=now)
        if any(isinstance(action, Release) for action in actions):
            break
        for action in actions:
            assert isinstance(action, ChangeBid)
            asked += 1
            current_bid = job.leases[0].bid
            job = play(
                job, e.BidIntended("lease-1", action.bid, at(now)), e.BidRefused("lease-1", current_bid, at(now + 1))
            )
    else:
        pytest.fail("the paused machine was never left")
    assert now <= P.waiting.longest_pause_s
    assert asked <= P.waiting.longest_pause_s / P.bids.rebid_settle_s + 1, (
        "a market that says no is not asked at every tick"
    )


def test_a_raise_that_the_guard_never_lets_through_does_not_hold_the_job_for_ever() -> None:
    job = a_job(a_paused_lease(), spec=a_spec(max_rate=D("0.310")))
    assert acts(job, now=901) == (Release("lease-1", Reason.OUTBID),)


def test_the_numbers_behind_the_choice_are_noted() -> None:
    decision = decide(a_job(a_paused_lease()), a_market(ELSEWHERE), START + timedelta(seconds=7), P)
    (note,) = (note for note in decision.notes if note.topic == "paused")
    numbers = dict(note.numbers)
    assert (numbers["cause"], numbers["paused_s"], numbers["rebid"]) == (Reason.OUTBID, 7, D("0.332"))
    assert numbers["cost_of_leaving"] is not None


def test_a_lease_is_never_asked_for_a_bid_it_already_has() -> None:
    lease: Lease = a_paused_lease(bid=D("0.5399"))
    for action in acts(a_job(lease)):
        assert not isinstance(action, ChangeBid) or action.bid > lease.bid
