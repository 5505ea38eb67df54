"""The machine of the first job that ends well on a market without a certificate: when its permit is let lapse, and at
what price.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, Action, Hold, Release
from autopilot.domain.certificate import Lack, UseProof
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Ending, Lease, LeaseState, Permit, Role
from autopilot.domain.market import Allowance, Market, UncertifiedRoom
from autopilot.domain.offer import DeadMan
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.decide import decide
from autopilot.policy.guard import guard
from autopilot.policy.proof import GOES_WITHIN, KEPT_FOR, LONGEST, most_cost
from autopilot.policy.purse import MarketPurse
from tests.builders import (
    HOUR,
    MINUTE,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_spec,
    an_offer,
    at,
    exposure,
    lease_of,
    limits,
    play,
)

P = Params()
DUE = UseProof(is_due=True)
MADE = UseProof(START + 20 * 24 * HOUR)
PERMIT_ENDS = at(900)
UNTIL = PERMIT_ENDS + KEPT_FOR
HOLD = Hold("lease-1", UNTIL, Reason.PROVING)
RELEASE = Release("lease-1", Reason.COMPLETED)


def a_machine(ttl_s: int | None = 900, **changes: Any) -> Lease:
    """Its run has ended well, and its last permit began at ``START``."""
    ended: dict[str, Any] = {
        "exit_code": 0,
        "agent_state": "finished",
        "acquired_at": START - MINUTE,
        "permit": Permit(7, START, ttl_s),
    }
    return a_lease(**(ended | changes))


def a_job_done(machine: Lease | None = None, spec: dict[str, Any] | None = None, **changes: Any) -> Job:
    done = {"status": JobStatus.SUCCEEDED, "reason": Reason.COMPLETED, "finished_at": START}
    return a_job(machine or a_machine(), spec=a_spec(**(spec or {})), **(done | changes))


def a_market_without(
    left: str = "5", proof: UseProof = DUE, dead_man: DeadMan = DeadMan.DESTROYS, **changes: Any
) -> Market:
    market = a_market(an_offer())
    view = market.providers["vastai"]
    able = replace(view.capabilities, dead_man=dead_man)
    room = UncertifiedRoom(D(5), D(left), is_taken=False, proof=proof)
    uncertified = replace(view, capabilities=able, lack=Lack.MISSING, uncertified=room)
    return replace(market, providers={"vastai": uncertified}, **changes)


def acts(job: Job, market: Market | None = None, after_s: float = 0) -> tuple[Action, ...]:
    """What is decided; the guard, which knows of the same proof, lets all of it pass."""
    market, now = market or a_market_without(), at(after_s)
    decision = decide(job, market, now, P)
    room = market.providers["vastai"].uncertified
    purses = {} if room is None else {"vastai": MarketPurse(D(5), D(0), "vastai", proof=room.proof)}
    allowed, vetoes = guard(job, decision, market, exposure(*job.leases, market_purses=purses), limits(), now, P)
    assert vetoes == ()
    return allowed


def proving(**changes: Any) -> Lease:
    held: dict[str, Any] = {"held_until": UNTIL, "reason": Reason.PROVING}
    return a_machine(**(held | changes))


def test_its_permit_is_let_lapse_and_the_price_is_said_before() -> None:
    job = a_job_done()
    assert acts(job) == (HOLD,)
    notes = {note.topic: dict(note.numbers) for note in decide(job, a_market_without(), START, P).notes}
    rate = lease_of(job).burn_upper
    assert D(str(notes["proof"]["reserve"])) >= rate * 23 / 60
    assert D(str(notes["proof"]["reserve"])) <= most_cost(rate)
    held = play(job, e.HoldBegun("lease-1", UNTIL, START, is_proof=True))
    more = budget.commitment(lease_of(held), P) - budget.commitment(lease_of(job), P)
    assert more == notes["proof"]["reserve"], "it is set aside when it begins"


def test_its_purpose_stays_with_the_machine_and_the_job_has_succeeded() -> None:
    held = play(a_job_done(), e.HoldBegun("lease-1", UNTIL, START, is_proof=True))
    lease = lease_of(held)
    assert (held.status, lease.held_until) == (JobStatus.SUCCEEDED, UNTIL)
    assert (lease.is_proving, lease.is_wanted) == (True, True)
    gone = lease_of(play(held, e.LeaseAbsent("lease-1", at(1000)), e.LeaseGone("lease-1", at(1030))))
    assert (gone.state, gone.reason) == (LeaseState.GONE, Reason.PROVING), "it is no loss"


def test_a_machine_that_is_asked_to_go_meanwhile_proves_nothing() -> None:
    job = a_job_done(proving())
    released = lease_of(play(job, e.ReleaseRequested("lease-1", Reason.USER_RELEASED, at(60))))
    assert (released.is_proving, released.reason) == (False, Reason.USER_RELEASED)


@pytest.mark.parametrize(
    "market",
    [
        a_market_without(proof=UseProof()),
        a_market_without(proof=MADE),
        a_market_without(dead_man=DeadMan.POWERS_OFF),
        a_market_without(dead_man=DeadMan.NONE),
        a_market(an_offer()),
    ],
    ids=["no such claim", "proved", "powers off", "cannot end itself", "certified"],
)
def test_where_there_is_nothing_to_prove_so_the_machine_goes_at_once(market: Market) -> None:
    assert acts(a_job_done(), market) == (RELEASE,)


@pytest.mark.parametrize(
    ("machine", "job"),
    [
        ({}, {"status": JobStatus.FAILED}),
        ({}, {"status": JobStatus.CANCELLED}),
        ({}, {"finished_at": START - 3 * MINUTE}),
        ({"exit_code": None}, {}),
        ({"role": Role.SAVE_AND_STOP}, {}),
        ({"state": LeaseState.PAUSED, "running_since": None}, {}),
        ({"offline_since": START}, {}),
        ({"agent_state": "expired"}, {}),
        ({"not_after": at(1000)}, {}),
        ({"permit": Permit()}, {}),
        ({"permit": Permit(7, START, 12 * 3600)}, {}),
        ({"permit": Permit(7, START - HOUR, 900)}, {}),
    ],
    ids=[
        *("failed", "cancelled", "too late", "no run", "told to stop", "paused", "offline", "its agent gave up"),
        *("its life ends before", "no permit", "a long permit", "its permit is over"),
    ],
)
def test_any_other_machine_goes(machine: dict[str, Any], job: dict[str, Any]) -> None:
    assert [type(action) for action in acts(a_job_done(a_machine(**machine), **job))] == [Release]


@pytest.mark.parametrize(
    ("spec", "market", "lacking"),
    [
        ({"budget": D("0.01")}, {}, Reason.BUDGET_EXHAUSTED),
        ({}, {"left": "0.01"}, Reason.OVER_UNCERTIFIED),
        ({}, {"allowance": Allowance(day=D("0.01"))}, Reason.OVER_DAY_LIMIT),
        ({}, {"allowance": Allowance(purse=D("0.01"))}, Reason.OVER_ALLOWANCE),
    ],
)
def test_where_a_limit_has_no_room_for_it_the_next_job_proves_the_market(
    spec: dict[str, Any], market: dict[str, Any], lacking: Reason
) -> None:
    job, without = a_job_done(spec=spec), a_market_without(**market)
    assert acts(job, without) == (RELEASE,)
    notes = {note.topic: dict(note.numbers) for note in decide(job, without, START, P).notes}
    assert notes["not_proved"]["because"] is lacking


def test_it_is_waited_for_and_destroyed_once_a_list_shows_it_too_late() -> None:
    for after_s, seen_s, is_over in (
        (0, 0, False),
        (1000, 1000, False),
        (1259, 1259, False),
        (1261, 900, False),
        (1261, 1261, True),
        (1380, 900, True),
    ):
        job = a_job_done(proving(last_seen_at=at(seen_s)))
        assert bool(acts(job, after_s=after_s)) is is_over, after_s
    assert KEPT_FOR > GOES_WITHIN
    assert timedelta(minutes=23) == LONGEST


def test_one_that_its_market_stops_before_its_permit_is_over_is_given_back() -> None:
    stopped = {"state": LeaseState.PAUSED, "running_since": None, "pause_cause": Reason.OUTBID}
    job = a_job_done(proving(**stopped))
    assert acts(job, after_s=600) == (Release("lease-1", Reason.OUTBID),)
    assert acts(job, after_s=1000) == (), "one that is stopped after it must go, too"


def guarded(hold: Hold, job: Job | None = None, proof: UseProof = DUE) -> bool:
    job = job or a_job_done()
    purses = {"vastai": MarketPurse(D(5), D(0), "vastai", proof=proof)}
    decision = replace(decide(job, a_market_without(), START, P), actions=(hold,))
    account = exposure(*job.leases, market_purses=purses)
    allowed, _ = guard(job, decision, a_market_without(), account, limits(), START, P)
    return allowed == (hold,)


def test_the_guard_reads_it_again() -> None:
    assert guarded(HOLD)
    assert not guarded(HOLD, proof=MADE)
    assert not guarded(replace(HOLD, until=UNTIL + HOUR))
    assert not guarded(replace(HOLD, reason=Reason.COMMAND_FAILED))
    assert not guarded(HOLD, a_job_done(proving()))
    assert not guarded(HOLD, a_job_done(status=JobStatus.FAILED))
    assert not guarded(HOLD, a_job_done(a_machine(ttl_s=3600)))


@pytest.mark.parametrize(("proof", "vetoed"), [(MADE, []), (DUE, [Reason.ONE_UNCERTIFIED])])
def test_once_the_market_is_proved_several_machines_may_be_there_within_the_allowance(
    proof: UseProof, vetoed: list[Reason]
) -> None:
    job, market = a_job(), a_market_without(proof=proof)
    decision = decide(job, market, START, P)
    assert [type(action) for action in decision.actions] == [Acquire]
    other = a_lease("lease-2", job_id="job-2")
    for allowance, reasons in ((D(5), vetoed), (D("0.05"), vetoed or [Reason.OVER_UNCERTIFIED])):
        purse = MarketPurse(allowance, D(0), "vastai", proof=proof)
        account = exposure(other, market_purses={"vastai": purse})
        _, vetoes = guard(job, decision, market, account, limits(), START, P)
        assert [veto.reason for veto in vetoes] == reasons


def test_a_proved_market_that_shows_a_machine_after_its_destroy_gets_no_other_until_that_is_gone() -> None:
    purse = MarketPurse(D(5), D(0), "vastai", proof=MADE)
    sent = Ending(requested_at=START, sent_at=at(5), attempts=1)
    going = a_lease(state=LeaseState.DESTROY_SENT, ending=sent)
    assert not purse.is_full([a_lease("lease-2"), going])
    stuck = replace(going, state=LeaseState.DESTROY_REQUESTED, observed=replace(going.observed, seen_at=at(20)))
    assert purse.is_full([stuck])
    assert not purse.is_full([replace(stuck, state=LeaseState.GONE)])
