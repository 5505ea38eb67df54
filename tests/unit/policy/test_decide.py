"""``decide``, question by question, in the order in which it asks them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, ChangeBid, Release, SaveAndStop, SetStatus
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus, SpotPolicy
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Allowance, Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.budget import start_reserve, stop_cost, sum_committed
from autopilot.policy.decide import decide
from tests.builders import (
    HOUR,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_new_home,
    a_paused_lease,
    a_spec,
    an_intent,
    an_offer,
    at,
    decided,
    heartbeat,
    play,
    seen,
)

P = Params().tune({"least_stretch": 1.0})
CHEAP = an_offer("cheap", floor=D("0.100"))
MARKET = a_market(an_offer("dear", floor=D("0.400")), CHEAP, an_offer("middling", floor=D("0.200")))


def acts(job: Job, market: Market = MARKET, now: float = 0, params: Params = P) -> tuple[object, ...]:
    return decide(job, market, at(now), params).actions


# 1. Does the job still want capacity?


@pytest.mark.parametrize(
    "status",
    [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.CANCELLING, JobStatus.PARKED],
)
def test_a_job_that_wants_nothing_gives_everything_back(status: JobStatus) -> None:
    leaving = a_lease("lease-3", state=LeaseState.DESTROY_REQUESTED, role=Role.LEAVE)
    job = a_job(a_lease(), a_new_home(), leaving, status=status, reason=Reason.USER_CANCELLED)
    assert acts(job) == (Release("lease-1", Reason.USER_CANCELLED), Release("lease-2", Reason.USER_CANCELLED))


def test_an_intent_of_a_cancelled_job_is_told_to_leave_once_and_goes_when_it_lands() -> None:
    job = a_job(an_intent(create_unknown=True), status=JobStatus.CANCELLING, reason=Reason.USER_CANCELLED)
    (release,), job = decided(job, MARKET, at(0))
    assert release == Release("lease-1", Reason.USER_CANCELLED)
    assert acts(job) == ()
    landed = play(job, e.LeaseAcquired("lease-1", "77", at(1)))
    assert landed.leases[0].state is LeaseState.DESTROY_REQUESTED


@pytest.mark.parametrize(
    ("reason", "now", "allowance", "goes_on"),
    [
        (Reason.OVER_DAY_LIMIT, 14 * HOUR, Allowance(), False),  # 23:30 of the same day
        (Reason.OVER_DAY_LIMIT, 15 * HOUR, Allowance(), True),
        (Reason.OVER_DAY_LIMIT, 15 * HOUR, Allowance(month=D(0)), False),
        (Reason.OVER_MONTH_LIMIT, 15 * HOUR, Allowance(), False),
        (Reason.OVER_MONTH_LIMIT, 11 * 24 * HOUR, Allowance(), True),  # the first of December
        (Reason.OVER_ALLOWANCE, 15 * HOUR, Allowance(purse=D(5)), False),
        (Reason.OVER_ALLOWANCE, 11 * 24 * HOUR, Allowance(purse=D(5)), True),
        (Reason.OVER_ALLOWANCE, 11 * 24 * HOUR, Allowance(purse=D(0)), False),
        (Reason.BUDGET_EXHAUSTED, 90 * 24 * HOUR, Allowance(), False),
    ],
)
def test_what_an_account_limit_parked_goes_on_in_the_next_period(
    reason: Reason, now: timedelta, allowance: Allowance, goes_on: bool
) -> None:
    job = play(a_job(), e.StatusSet(JobStatus.PARKED, reason, START))
    actions = decide(job, replace(MARKET, allowance=allowance), START + now, P).actions
    assert actions == ((SetStatus(JobStatus.PENDING, Reason.ROOM_AGAIN),) if goes_on else ())


@pytest.mark.parametrize(
    ("reason", "made_room", "left", "allowance", "goes_on"),
    [
        (Reason.BUDGET_EXHAUSTED, True, D(2), Allowance(), True),
        (Reason.BUDGET_EXHAUSTED, False, D(2), Allowance(), False),  # its machine is gone, and the reserve is free
        (Reason.BUDGET_EXHAUSTED, True, D("0.01"), Allowance(), False),  # not enough to start and stop safely
        (Reason.BUDGET_EXHAUSTED, True, D(2), Allowance(day=D("0.01")), False),
        (Reason.BUDGET_EXHAUSTED, True, D(2), Allowance(month=D(0)), False),
        (Reason.OVER_DAY_LIMIT, True, D(2), Allowance(day=D(1)), True),
        (Reason.OVER_DAY_LIMIT, True, D(2), Allowance(day=D("0.01")), False),
        (Reason.OVER_MONTH_LIMIT, True, D("0.01"), Allowance(month=D(1)), False),
        (Reason.OVER_MONTH_LIMIT, False, D(2), Allowance(month=D(1)), False),
        (Reason.OVER_ALLOWANCE, True, D(2), Allowance(purse=D(1)), True),
        (Reason.OVER_ALLOWANCE, True, D(2), Allowance(purse=D("0.01")), False),
        (Reason.BUDGET_EXHAUSTED, True, D(2), Allowance(purse=D("0.01")), False),
        (Reason.USER_CANCELLED, True, D(2), Allowance(), False),  # only what money parked
    ],
)
def test_money_that_came_back_lets_a_parked_job_go_on_where_it_pays_a_whole_start(
    reason: Reason, made_room: bool, left: Decimal, allowance: Allowance, goes_on: bool
) -> None:
    job = play(a_job(spec=a_spec(budget=D(5)), spent=5 - left), e.StatusSet(JobStatus.PARKED, reason, START))
    market = replace(a_market(an_offer()), allowance=allowance, made_room=made_room)
    actions = decide(job, market, START + HOUR, P).actions
    assert actions == ((SetStatus(JobStatus.PENDING, Reason.ROOM_AGAIN),) if goes_on else ())


# 2. Is there money for more than a safe stop?


def broke(job: Job) -> Job:
    """The same job with a budget that its commitments just use up."""
    spec = a_spec(budget=sum_committed(job, P))
    return a_job(*job.leases, spec=spec, spent=job.spent)


def test_without_money_a_running_job_is_saved_first() -> None:
    job = broke(a_job(a_lease(), a_new_home(), spent=D(5)))
    assert acts(job) == (SaveAndStop("lease-1", Reason.BUDGET_EXHAUSTED), Release("lease-2", Reason.BUDGET_EXHAUSTED))


def test_one_nano_dollar_more_and_it_goes_on() -> None:
    lease = a_lease()
    spec = a_spec(budget=D(5) + stop_cost(lease.bid, lease.storage_rate, P) + D("0.000000001"))
    assert acts(a_job(lease, spec=spec, spent=D(5)), a_market()) == ()


def test_the_wait_for_the_last_checkpoint_has_an_end() -> None:
    told = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START)
    job = broke(a_job(told))
    assert acts(job, now=P.budget.save_timeout_s - 1) == ()
    parked = (Release("lease-1", Reason.BUDGET_EXHAUSTED), SetStatus(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED))
    assert acts(job, now=P.budget.save_timeout_s) == parked
    saved = broke(a_job(a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, agent_saved=True)))
    assert acts(saved, now=30) == parked


@pytest.mark.parametrize(
    "lease",
    [
        a_paused_lease(),
        a_lease(status=InstanceStatus.PROVISIONING, running_since=None),
        a_lease(status=InstanceStatus.OFFLINE, running_since=None, offline_since=START),
    ],
    ids=["paused", "loading", "offline"],
)
def test_without_money_a_machine_that_does_no_work_is_given_back_at_once(lease: Lease) -> None:
    job = broke(a_job(lease))
    assert acts(job) == (
        Release("lease-1", Reason.BUDGET_EXHAUSTED),
        SetStatus(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED),
    )


@pytest.mark.parametrize(
    ("allowance", "reason"),
    [
        (Allowance(day=D(0), month=D(5)), Reason.OVER_DAY_LIMIT),
        (Allowance(day=D(-1), month=D(0)), Reason.OVER_MONTH_LIMIT),
        (Allowance(month=D(0)), Reason.OVER_MONTH_LIMIT),
        (Allowance(month=D(0), purse=D("-0.1")), Reason.OVER_ALLOWANCE),
    ],
)
def test_an_account_at_its_limit_saves_and_parks(allowance: Allowance, reason: Reason) -> None:
    market = replace(MARKET, allowance=allowance)
    assert acts(a_job(a_lease()), market) == (SaveAndStop("lease-1", reason),)
    saved = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, agent_saved=True)
    assert acts(a_job(saved), market) == (Release("lease-1", reason), SetStatus(JobStatus.PARKED, reason))
    assert acts(a_job(), market) == (SetStatus(JobStatus.PARKED, reason),)


def test_a_budget_too_small_for_any_offer_parks_or_cancels_the_job() -> None:
    for cancels, status in ((False, JobStatus.PARKED), (True, JobStatus.CANCELLING)):
        job = a_job(spec=a_spec(budget=D("0.01"), cancel_when_exhausted=cancels))
        assert acts(job) == (SetStatus(status, Reason.BUDGET_EXHAUSTED),)


# 3. A move under way: see test_migration.


# 4. No machine.


def test_the_cheapest_way_to_finish_is_taken() -> None:
    (action,) = acts(a_job())
    assert action == Acquire(Slot.MAIN, CHEAP, CapacityType.SPOT, D("0.105"), Reason.CHEAPEST)


def test_a_lower_rate_with_a_dear_disk_is_not_the_cheapest() -> None:
    dear_disk = an_offer("dear-disk", floor=D("0.090"), storage_price=D("5.00"))
    (action,) = acts(a_job(), a_market(dear_disk, CHEAP))
    assert isinstance(action, Acquire)
    assert action.offer is CHEAP


def test_on_demand_is_taken_when_it_costs_less_than_any_bid() -> None:
    bargain = an_offer("bargain", floor=None, on_demand_price=D("0.110"))
    (action,) = acts(a_job(), a_market(CHEAP, bargain))
    assert action == Acquire(Slot.MAIN, bargain, CapacityType.ON_DEMAND, D("0.110"), Reason.CHEAPEST)


DEDICATED = an_offer("dedicated", floor=None, on_demand_price=D("0.600"))


@pytest.mark.parametrize(
    ("changes", "able", "taken"),
    [
        ({}, {}, False),
        ({"work_estimate": HOUR, "deadline": START + 30 * HOUR}, {}, False),
        ({"work_estimate": HOUR, "deadline": START + 1.1 * HOUR, "fall_back": False}, {}, False),
        ({"work_estimate": HOUR, "deadline": START + 1.1 * HOUR}, {}, True),
        ({"spot_policy": SpotPolicy.ON_DEMAND}, {}, True),
        ({}, {"spot": False}, True),
        ({}, {"spot": False, "spot_is_unknown": True}, False),
    ],
    ids=["no deadline", "it is far", "rather late", "it presses", "the job file", "no spot", "not yet known"],
)
def test_for_want_of_spot_on_demand_is_taken_only_when_something_asks_for_it(
    changes: dict[str, Any], able: dict[str, Any], taken: bool
) -> None:
    market = a_market(DEDICATED, **able)
    decision = decide(a_job(spec=a_spec(**changes)), market, START, P)
    assert [type(action) for action in decision.actions] == [Acquire] * taken
    notes = [dict(note.numbers) for note in decision.notes if note.topic == "option"]
    assert {note["option"]: note["refused"] for note in notes}["on_demand"] == (None if taken else "not_needed")


def test_an_account_without_credit_on_one_market_rents_on_another() -> None:
    elsewhere = an_offer("elsewhere", provider="runpod", floor=D("0.400"))
    market = a_market(CHEAP, elsewhere, credit=D("0.05"))
    view = market.providers["vastai"]
    both = replace(market, providers={"vastai": view, "runpod": replace(view, credit=D(50))})
    (action,) = acts(a_job(), both)
    assert isinstance(action, Acquire)
    assert action.offer is elsewhere
    poor = replace(both, providers={"vastai": view, "runpod": view})
    (action,) = acts(a_job(), poor)
    assert isinstance(action, Acquire), "the guard's veto says that the credit is too low"


@pytest.mark.parametrize("dear", ["storage_price", "upload_price", "download_price"])
@pytest.mark.parametrize(("credit", "machine"), [("40", "dear"), ("1", "plain")])
def test_the_credit_must_pay_a_start_with_its_disk_and_traffic(dear: str, credit: str, machine: str) -> None:
    """One offer is cheaper by the hour, but what its start sets aside is beyond a small account."""
    choices = [
        an_offer("dear", floor=D("0.010"), **{dear: D("3")}),
        an_offer("plain", floor=D("0.300")),
    ]
    job = a_job(spec=a_spec(work_estimate=timedelta(hours=2000)))
    (action,) = acts(job, a_market(*choices, credit=D(credit)))
    assert isinstance(action, Acquire)
    assert action.offer.machine_id == machine


@pytest.mark.parametrize(
    ("policy", "types"),
    [
        (SpotPolicy.SPOT, {CapacityType.SPOT}),
        (SpotPolicy.ON_DEMAND, {CapacityType.ON_DEMAND}),
        (SpotPolicy.AUTO, {CapacityType.SPOT}),
    ],
)
def test_the_spot_policy_is_kept(policy: SpotPolicy, types: set[CapacityType]) -> None:
    assert {a.capacity_type for a in acts(a_job(spec=a_spec(spot_policy=policy))) if isinstance(a, Acquire)} == types


def test_the_jobs_own_rate_limit_counts_the_disk() -> None:
    offer = an_offer(floor=D("0.100"), storage_price=D("0.720"))  # a bid of $0.105/h and $0.02/h for 20 GB
    for limit, taken in ((D("0.125"), 1), (D("0.124"), 0)):
        spec = a_spec(max_rate=limit, spot_policy=SpotPolicy.SPOT)
        assert len(acts(a_job(spec=spec), a_market(offer))) == taken


@pytest.mark.parametrize(
    "market",
    [a_market(), a_market(CHEAP, known=False), a_market(CHEAP, avoid=frozenset({("vastai", "cheap")}))],
    ids=["no offers", "market unknown", "machine avoided"],
)
def test_without_an_eligible_offer_it_waits(market: Market) -> None:
    assert acts(a_job(), market) == ()


def test_a_create_whose_outcome_is_unknown_is_never_repeated() -> None:
    assert acts(a_job(an_intent(create_unknown=True)), now=10_000) == ()


def test_a_machine_on_its_way_out_is_not_rented_again() -> None:
    leaving = a_lease(machine_id="cheap", state=LeaseState.DESTROY_REQUESTED, role=Role.LEAVE)
    (action,) = acts(a_job(leaving))
    assert isinstance(action, Acquire)
    assert action.offer.machine_id == "middling"


def pressed(hours_left: float, **changes: object) -> Job:
    return a_job(spec=a_spec(work_estimate=10 * HOUR, deadline=START + hours_left * HOUR, **changes))


@pytest.mark.parametrize(
    ("hours_left", "capacity_type", "reason"),
    [
        (24, CapacityType.SPOT, Reason.CHEAPEST),
        # Beyond 10 h and a set-up of 420 s, six tenths are held for the estimate's error; a loss costs 1110 s.
        (10.89, CapacityType.SPOT, Reason.CHEAPEST),
        (10.88, CapacityType.ON_DEMAND, Reason.DEADLINE),
        (9, CapacityType.ON_DEMAND, Reason.DEADLINE),  # too late already: as early as can be
    ],
)
def test_a_deadline_asks_for_on_demand(hours_left: float, capacity_type: CapacityType, reason: Reason) -> None:
    (action,) = acts(pressed(hours_left))
    assert isinstance(action, Acquire)
    assert (action.capacity_type, action.reason) == (capacity_type, reason)


def test_a_deadline_does_not_when_the_job_file_forbids_it() -> None:
    (action,) = acts(pressed(11, fall_back=False))
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.SPOT


def test_late_is_worse_than_risky() -> None:
    spot_only = a_market(an_offer("spot-only", floor=D("0.100"), on_demand_price=None))
    (action,) = acts(pressed(10.5, max_bid=D("0.500")), spot_only)
    assert isinstance(action, Acquire)
    assert (action.capacity_type, action.reason) == (CapacityType.SPOT, Reason.DEADLINE)


def test_spot_is_taken_when_the_budget_does_not_reach_for_on_demand() -> None:
    offer = an_offer(floor=D("0.100"), on_demand_price=D("4.000"))
    (action,) = acts(pressed(11, budget=D("0.50")), a_market(offer))
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.SPOT


def test_where_the_cheapest_costs_too_much_to_begin_with_another_is_taken() -> None:
    cheapest = an_offer("dear-traffic", floor=None, on_demand_price=D("0.300"), download_price=D("0.02"))
    other = an_offer("machine-b", floor=None, on_demand_price=D("0.340"))
    spec = a_spec(spot_policy=SpotPolicy.ON_DEMAND, work_estimate=10 * HOUR, deadline=None)
    market = a_market(cheapest, other)
    (wanted,) = acts(a_job(spec=spec), market)
    assert isinstance(wanted, Acquire)
    assert wanted.offer is cheapest
    needs = [start_reserve(a_job(spec=spec), each, each.on_demand_price or D(0), P) for each in (other, cheapest)]
    assert needs[0] < needs[1]
    (payable,) = acts(a_job(spec=replace(spec, budget=sum(needs, D(0)) / 2)), market)
    assert isinstance(payable, Acquire)
    assert payable.offer is other, "it would wait for ever for the first"


# Standing rules.


def test_each_decision_says_why() -> None:
    decision = decide(a_job(), MARKET, START, P)
    assert {note.topic for note in decision.notes} == {"status", "option"}


def test_a_move_for_the_deadline_is_carried_through() -> None:
    """The whole escalation: spot at work → on-demand loads → save → promote → release."""
    job = a_job(a_lease(), spec=a_spec(deadline=START + 10.3 * HOUR))
    (move,), job = decided(job, a_market(an_offer()), at(0))
    assert isinstance(move, Acquire)
    new = an_intent("lease-2", slot=Slot.NEXT, capacity_type=CapacityType.ON_DEMAND, bid=move.bid)
    job = play(job, e.LeaseIntended(new, at(0)), e.LeaseAcquired("lease-2", "78", at(1)))
    job = play(job, seen(job.leases[1], InstanceStatus.RUNNING, at(200)), heartbeat(new, at(210), "waiting"))
    (stop,), job = decided(job, a_market(), at(211))
    assert stop == SaveAndStop("lease-1", Reason.MOVING)
    job = play(job, heartbeat(job.leases[0], at(240), "saving", saved=True))
    actions, job = decided(job, a_market(), at(241))
    assert [type(action).__name__ for action in actions] == ["Release", "Promote"]
    assert job.main is not None
    assert (job.main.id, job.main.orders.role, job.run_epoch) == ("lease-2", Role.RUN, 2)
    assert not any(isinstance(action, ChangeBid) for action in acts(job, MARKET, 300))
