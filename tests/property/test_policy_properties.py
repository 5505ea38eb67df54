"""``decide`` and ``guard`` over jobs and markets of any kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autopilot.domain.actions import Acquire, Action, ChangeBid, Decision, Promote, Release, SetStatus
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobSpec, JobStatus, SpotPolicy
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Market
from autopilot.domain.money import from_nano
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import action_events
from autopilot.policy import budget
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, guard
from autopilot.policy.purse import Purse
from autopilot.pricing.availability.phases import first_belief
from autopilot.pricing.rule.bidding import ceiling
from tests.builders import (
    HOUR,
    START,
    D,
    a_checkpoint,
    a_job,
    a_lease,
    a_market,
    a_spec,
    an_intent,
    an_offer,
    play,
)
from tests.unit.policy.table_market import PHASES, SHAPE, job_due, on_demand, on_spot
from tests.unit.policy.table_market import P as TABLE_PARAMS
from tests.unit.policy.table_market import market as table_market

P = Params()
prices = st.integers(1, 4000).map(lambda mills: D(mills) / 1000)
fine_prices = st.integers(10**6, 4 * 10**9).map(from_nano)
seconds = st.integers(-40_000, 0).map(lambda s: START + timedelta(seconds=s))


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    return a_spec(
        work_estimate=draw(st.none() | st.timedeltas(timedelta(0), timedelta(hours=30))),
        deadline=draw(st.none() | st.timedeltas(timedelta(hours=-1), timedelta(hours=60)).map(lambda d: START + d)),
        spot_policy=draw(st.sampled_from(SpotPolicy)),
        fall_back=draw(st.booleans()),
        max_hourly=draw(st.none() | prices),
        max_bid=draw(st.none() | prices),
        max_rate=draw(st.none() | prices),
        budget=draw(st.none() | st.integers(1, 60).map(Decimal)),
        cancel_when_exhausted=draw(st.booleans()),
    )


@st.composite
def offers(draw: st.DrawFn, machine_id: str = "m") -> Offer:
    return an_offer(
        machine_id,
        floor=draw(st.none() | fine_prices),
        on_demand_price=draw(st.none() | fine_prices),
        storage_price=draw(prices),
        reliability=draw(st.integers(50, 100).map(lambda n: D(n) / 100)),
        ends_at=draw(st.none() | st.timedeltas(timedelta(0), timedelta(hours=90)).map(lambda d: START + d)),
    )


@st.composite
def markets(draw: st.DrawFn) -> Market:
    found = [draw(offers(f"m{n}")) for n in range(draw(st.integers(0, 6)))]
    credit = draw(st.none() | st.integers(-1, 50).map(Decimal))
    return a_market(*found, known=draw(st.integers(0, 9)) > 0, credit=credit, can_rebid=draw(st.booleans()))


@st.composite
def leases(draw: st.DrawFn, id: str, slot: Slot) -> Lease:
    terms: dict[str, Any] = {
        "slot": slot,
        "bid": draw(prices),
        "on_demand_price": draw(st.none() | prices),
        "storage_rate": draw(st.integers(0, 10**8).map(from_nano)),
        "capacity_type": draw(st.sampled_from(CapacityType)),
        "intended_at": draw(seconds),
        "not_after": START + draw(st.timedeltas(timedelta(hours=-1), timedelta(hours=72))),
        "role": draw(st.sampled_from([Role.RUN, Role.SAVE_AND_STOP])) if slot is Slot.MAIN else Role.WAIT,
        "run_epoch": 1 if slot is Slot.MAIN else 0,
    }
    kind = draw(st.sampled_from(["intent", "loading", "running", "paused", "offline", "leaving", "sent"]))
    if kind == "intent":
        return an_intent(id, reserved=draw(prices), create_unknown=draw(st.booleans()), **terms)
    terms |= {
        "acquired_at": terms["intended_at"],
        "running_since": None,
        "agent_state": draw(st.sampled_from(["", "waiting", "restoring", "running", "saving"])),
        "agent_saved": draw(st.booleans()),
        "stop_ordered_at": draw(st.none() | seconds),
        "exit_code": draw(st.sampled_from([None, None, None, 1])),
    }
    since = draw(seconds)
    match kind:
        case "loading":
            terms |= {"status": InstanceStatus.PROVISIONING}
        case "running":
            terms |= {"running_since": since}
        case "paused":
            cause = draw(st.sampled_from([Reason.OUTBID, Reason.OUT_OF_CREDIT, Reason.EXPIRING, Reason.UNKNOWN]))
            terms |= {"state": LeaseState.PAUSED, "status": InstanceStatus.STOPPED, "paused_at": since}
            terms |= {
                "pause_cause": cause,
                "rebids": draw(st.integers(0, 3)),
                "bid_changed_at": draw(st.none() | seconds),
            }
        case "offline":
            terms |= {"status": InstanceStatus.OFFLINE, "offline_since": since}
        case "leaving":
            terms |= {"state": LeaseState.DESTROY_REQUESTED}
        case "sent":
            terms |= {"state": LeaseState.DESTROY_SENT}
    lease = a_lease(id, **terms)
    return lease.stop_billing(START) if kind == "sent" else lease


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    held = [
        *([draw(leases("lease-1", Slot.MAIN))] if draw(st.booleans()) else []),
        *([draw(leases("lease-2", Slot.NEXT))] if draw(st.integers(0, 2)) == 0 else []),
    ]
    changes: dict[str, Any] = {"spent": draw(st.integers(0, 60 * 10**9).map(from_nano)), "run_epoch": 1}
    changes["work_done"] = draw(st.timedeltas(timedelta(0), 30 * HOUR))
    if draw(st.booleans()):
        changes["checkpoint"] = a_checkpoint(a_lease(), draw(st.integers(0, 3)))
    if draw(st.integers(0, 4)) == 0:
        changes |= {"status": draw(st.sampled_from(JobStatus)), "reason": Reason.USER_CANCELLED}
    return a_job(*held, spec=draw(specs()), **changes)


@pytest.mark.slow
@given(jobs(), markets())
def test_the_same_input_gives_the_same_decision(job: Job, market: Market) -> None:
    assert decide(job, market, START, P) == decide(replace(job), replace(market), START, P)


@pytest.mark.slow
@given(jobs(), markets(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_market_lists_its_offers_does_not_matter(job: Job, market: Market, rng: Any) -> None:
    shuffled = list(market.offers)
    rng.shuffle(shuffled)
    assert decide(job, replace(market, offers=tuple(shuffled)), START, P) == decide(job, market, START, P)


@pytest.mark.slow
@given(jobs(), markets())
def test_a_decision_keeps_to_what_the_job_file_allows(job: Job, market: Market) -> None:
    spec = job.spec
    decision = decide(job, market, START, P)
    assert sum(isinstance(action, Acquire) for action in decision.actions) <= 1
    # A job that is parked lets go even of a create whose outcome is not known yet.
    statuses = [action.status for action in decision.actions if isinstance(action, SetStatus)]
    still_wanted = (statuses[-1] if statuses else job.status).wants_capacity
    for action in decision.actions:
        match action:
            case Acquire(slot, offer, capacity_type, rate):
                assert job.status.wants_capacity
                assert market.knows(offer.provider)
                assert job.lease_in(slot) is None
                assert spec.max_hourly is None or rate <= spec.max_hourly
                assert spec.max_rate is None or rate + offer.storage_rate(spec.disk_gb) <= spec.max_rate
                if capacity_type is CapacityType.SPOT:
                    limit = ceiling(spec, offer.on_demand_price, P)
                    assert spec.spot_policy is not SpotPolicy.ON_DEMAND
                    assert limit is not None
                    assert offer.floor is not None
                    assert offer.floor <= rate <= limit, "a bid that loses, or one too high"
                    assert rate % P.bids.unit == 0
                else:
                    assert spec.spot_policy is not SpotPolicy.SPOT
                    assert rate == offer.on_demand_price
            case ChangeBid(lease_id, bid):
                lease = next(lease for lease in job.leases if lease.id == lease_id)
                limit = ceiling(spec, lease.on_demand_price, P)
                assert lease.is_spot
                assert lease.state is LeaseState.PAUSED
                assert lease.observed.pause_cause is not Reason.OUT_OF_CREDIT
                assert limit is not None
                assert lease.bid < bid <= limit
            case Release(lease_id):
                lease = next(lease for lease in job.leases if lease.id == lease_id)
                assert lease.is_wanted
                assert lease.instance_id is not None or not still_wanted
            case Promote(lease_id):
                assert job.next is not None
                assert job.next.id == lease_id
                assert job.next.instance_id is not None
            case _:
                pass


@given(jobs(), markets())
def test_each_decision_can_be_applied(job: Job, market: Market) -> None:
    decision = decide(job, market, START, P)
    account = Exposure(tuple(lease for lease in job.leases if not lease.is_over), D(0), D(0))
    open_limits = Limits(None, None, None, 100, 100, 100)
    allowed, vetoes = guard(job, decision, market, account, open_limits, START, P)
    assert len(allowed) + len(vetoes) == len(decision.actions)
    play(job, *action_events(allowed, START))


@given(offers("worse"), st.sampled_from(["floor", "storage_price", "reliability"]), specs())
def test_a_dominated_offer_is_never_taken(worse: Offer, better_in: str, spec: JobSpec) -> None:
    better = replace(worse, machine_id="better")
    match better_in:
        case "floor":
            assume(worse.floor is not None and worse.floor > D("0.01"))
            assert worse.floor is not None
            better = replace(better, floor=worse.floor * D("0.9"))
        case "storage_price":
            better = replace(better, storage_price=worse.storage_price / 2)
        case _:
            better = replace(better, reliability=worse.reliability + 1)
    for order in ((worse, better), (better, worse)):
        actions = decide(a_job(spec=spec), a_market(*order), START, P).actions
        taken = [action.offer.machine_id for action in actions if isinstance(action, Acquire)]
        # A floor that decides nothing, as for a job on demand, leaves a tie.
        tie = better_in == "floor" and all(
            action.capacity_type is CapacityType.ON_DEMAND for action in actions if isinstance(action, Acquire)
        )
        assert tie or "worse" not in taken


@st.composite
def any_decision(draw: st.DrawFn, job: Job) -> Decision:
    """What no right ``decide`` would say, too."""
    ids = st.sampled_from(["lease-1", "lease-2", "lease-9"])
    reason = st.just(Reason.CHEAPEST)
    acquire = st.builds(Acquire, st.sampled_from(Slot), offers("m"), st.sampled_from(CapacityType), prices, reason)
    action: st.SearchStrategy[Action] = st.one_of(
        acquire,
        st.builds(ChangeBid, ids, prices, reason),
        st.builds(Release, ids, reason),
        st.builds(Promote, ids, reason),
    )
    return Decision(tuple(draw(st.lists(action, max_size=4))), ())


money = st.none() | st.integers(0, 20 * 10**9).map(from_nano)


@given(jobs(), markets(), st.data())
def test_nothing_that_the_guard_lets_through_breaks_a_cap(job: Job, market: Market, data: st.DataObject) -> None:
    decision = data.draw(any_decision(job))
    caps = Limits(data.draw(money), data.draw(money), data.draw(money), data.draw(st.integers(0, 4)), 3, 10)
    others = tuple(a_lease(f"x{n}", bid=data.draw(prices)) for n in range(data.draw(st.integers(0, 2))))
    mine = tuple(lease for lease in job.leases if not lease.is_over)
    account = Exposure(
        (*mine, *others),
        data.draw(st.integers(0, 10**10).map(from_nano)),
        data.draw(st.integers(0, 10**10).map(from_nano)),
        LaunchCount(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 21))),
        LaunchCount(data.draw(st.integers(0, 10)), data.draw(st.integers(0, 201))),
    )
    purse = Purse(data.draw(money), data.draw(st.integers(0, 10**10).map(from_nano)), frozenset([job.id]), False)
    account = replace(account, purses={job.id: (purse,)})
    allowed, vetoes = guard(job, decision, market, account, caps, START, P)
    assert sorted(map(repr, [*allowed, *(veto.action for veto in vetoes)])) == sorted(map(repr, decision.actions))

    launches = [action for action in allowed if isinstance(action, Acquire)]
    raises = [action for action in allowed if isinstance(action, ChangeBid) and _is_raise(job, action)]
    assert len(launches) <= 1
    if not launches and not raises:
        return
    after = replace(job, leases=_after(job, launches, raises))
    committed = [budget.commitment(lease, P) for lease in (*after.leases, *others)]
    burn = budget.burn((*after.leases, *others))
    assert job.spec.budget is None or budget.sum_committed(after, P) <= job.spec.budget
    assert job.spec.max_rate is None or budget.burn(after.leases) <= job.spec.max_rate
    of_token = sum((budget.commitment(lease, P) for lease in after.leases), D(0))
    assert purse.allowance is None or purse.spent + of_token <= purse.allowance
    assert caps.day is None or account.spent_day + sum(committed) <= caps.day
    assert caps.month is None or account.spent_month + sum(committed) <= caps.month
    assert caps.max_hourly is None or burn <= caps.max_hourly
    for launch in launches:
        assert market.knows(launch.offer.provider)
        assert len(account.leases) < caps.max_instances
        assert account.launches_job_10min.rented < caps.launches_per_job_10min
        assert account.launches_hour.rented < caps.launches_per_hour
        assert account.launches_job_10min.refused < caps.refused_per_job_10min
        assert account.launches_hour.refused < caps.refused_per_hour
        assert job.lease_in(launch.slot) is None


def _is_raise(job: Job, action: ChangeBid) -> bool:
    return any(lease.id == action.lease_id and action.bid > lease.bid for lease in job.leases)


def _after(job: Job, launches: list[Acquire], raises: list[ChangeBid]) -> tuple[Lease, ...]:
    held = [
        replace(lease, bid=max([lease.bid, *(r.bid for r in raises if r.lease_id == lease.id)])) for lease in job.leases
    ]
    for launch in launches:
        storage = launch.offer.storage_rate(job.spec.disk_gb)
        reserved = budget.create_reserve(launch.bid, storage, P)
        held.append(an_intent("new", slot=launch.slot, bid=launch.bid, storage_rate=storage, reserved=reserved))
    return tuple(held)


# Decisions by a table of costs to go.

LEFT_STEPS = st.integers(2, 58)
WORK_STEPS = st.integers(1, 50)
BUDGETS = st.integers(1, 120).map(lambda dimes: D(dimes) / 10)
MODES = st.sampled_from(["nothing", "spot", "on_demand"])


def held(mode: str) -> tuple[Lease, ...]:
    return {"nothing": (), "spot": (on_spot(),), "on_demand": (on_demand(),)}[mode]


def chosen_cost(job: Job, seen: Market) -> float | None:
    """Expected dollars of the way that is taken; None when none is (parked)."""
    ways = [dict(note.numbers) for note in decide(job, seen, START, TABLE_PARAMS).notes if note.topic == "option"]
    costs = [float(Decimal(str(way["cost"]))) for way in ways if way["chosen"] and way["cost"] is not None]
    assert len(costs) <= 1
    return costs[0] if costs else None


NOISE = 2e-4
"""Costs in notes are rounded to the hundredth of a cent."""


@pytest.mark.slow
@given(jobs(), markets(), st.booleans(), st.randoms(use_true_random=False))
def test_with_a_table_too_equal_inputs_give_equal_decisions_in_any_order(
    job: Job, market: Market, is_on: bool, rng: Any
) -> None:
    outlook = Outlook(shape=SHAPE, belief=first_belief(PHASES, is_on))
    shuffled = list(market.offers)
    rng.shuffle(shuffled)
    seen, other = replace(market, outlook=outlook), replace(market, offers=tuple(shuffled), outlook=replace(outlook))
    assert decide(replace(job), other, START, P) == decide(job, seen, START, P)


def check_choice_is_explained(job: Job, market: Market, params: Params) -> None:
    """Beside the chosen option none is cheaper and open: what ruled it out is in the record."""
    options = [dict(note.numbers) for note in decide(job, market, START, params).notes if note.topic == "option"]
    chosen = next((option["cost"] for option in options if option["chosen"]), None)
    if chosen is not None:
        assert [
            each for each in options if each["cost"] is not None and D(each["cost"]) < D(chosen) and not each["refused"]
        ] == []


@given(jobs(), markets())
def test_no_dearer_option_is_chosen_without_a_reason(job: Job, market: Market) -> None:
    check_choice_is_explained(job, market, P)


@pytest.mark.slow
@given(jobs(), markets(), st.booleans())
def test_by_a_table_too_no_dearer_option_is_chosen_without_a_reason(job: Job, market: Market, is_on: bool) -> None:
    outlook = replace(market.outlook, shape=SHAPE, belief=first_belief(PHASES, is_on))
    check_choice_is_explained(job, replace(market, outlook=outlook), TABLE_PARAMS)


@given(LEFT_STEPS, LEFT_STEPS, WORK_STEPS, MODES, st.booleans())
def test_a_later_deadline_never_raises_the_expected_cost(
    one: int, other: int, work: int, mode: str, is_on: bool
) -> None:
    sooner, later = sorted((one, other))
    seen = table_market(is_on=is_on)
    costs = [chosen_cost(job_due(left, *held(mode), work=work), seen) for left in (sooner, later)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[1] <= costs[0] + NOISE


@given(LEFT_STEPS, WORK_STEPS, WORK_STEPS, MODES, st.booleans())
def test_less_work_never_raises_the_expected_cost(left: int, one: int, other: int, mode: str, is_on: bool) -> None:
    less, more = sorted((one, other))
    seen = table_market(is_on=is_on)
    costs = [chosen_cost(job_due(left, *held(mode), work=work), seen) for work in (less, more)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] <= costs[1] + NOISE


@given(BUDGETS, st.none() | BUDGETS, LEFT_STEPS, WORK_STEPS, st.booleans())
def test_a_larger_budget_never_raises_the_expected_cost_but_for_the_price_of_certainty(
    budget: Decimal, more: Decimal | None, left: int, work: int, is_on: bool
) -> None:
    larger = None if more is None else budget + more
    all_on_demand = (work + 1) * D(1) / 6
    # A budget that comes to reach for on-demand buys "never late", which costs more than to take the risk.
    assume(budget >= all_on_demand or (larger is not None and larger < all_on_demand))
    seen = table_market(is_on=is_on)
    tight = chosen_cost(job_due(left, work=work, budget=budget), seen)
    wide = chosen_cost(job_due(left, work=work, budget=larger), seen)
    assert wide is not None
    assert tight is None or wide <= tight + NOISE


@given(
    st.sampled_from(["floor", "storage_price", "reliability", "on_demand_price"]),
    st.integers(1, 99),
    LEFT_STEPS,
    WORK_STEPS,
    MODES,
)
def test_by_a_table_too_a_dominated_offer_is_never_taken(
    better_in: str, percent: int, left: int, work: int, mode: str
) -> None:
    worse = an_offer("worse", floor=D("0.25"), on_demand_price=D("1.1"), storage_price=D(1))
    changed = getattr(worse, better_in) * percent / 100 if better_in != "reliability" else D("0.995")
    changes: dict[str, Any] = {better_in: changed}
    better = replace(worse, machine_id="better", **changes)
    assume(better.floor is None or better.on_demand_price is None or better.floor < better.on_demand_price * D("0.9"))
    taken = []
    for order in ((worse, better), (better, worse)):
        seen = replace(table_market(is_on=True), offers=order)
        actions = decide(job_due(left, *held(mode), work=work), seen, START, TABLE_PARAMS).actions
        taken += [action for action in actions if isinstance(action, Acquire)]
    for action in taken:
        decides = {"floor": CapacityType.SPOT, "on_demand_price": CapacityType.ON_DEMAND}.get(better_in)
        assert action.offer.machine_id == "better" or decides not in (None, action.capacity_type)


@given(fine_prices, fine_prices, st.none() | prices, LEFT_STEPS, WORK_STEPS, MODES)
def test_by_a_table_too_no_bid_reaches_on_demand_or_passes_the_ceiling(
    floor: Decimal, on_demand_price: Decimal, max_bid: Decimal | None, left: int, work: int, mode: str
) -> None:
    both = an_offer("both", floor=floor, on_demand_price=on_demand_price, storage_price=D(0))
    job = job_due(left, *held(mode), work=work, max_bid=max_bid)
    for action in decide(job, replace(table_market(is_on=True), offers=(both,)), START, TABLE_PARAMS).actions:
        if isinstance(action, Acquire) and action.capacity_type is CapacityType.SPOT:
            limit = ceiling(job.spec, on_demand_price, TABLE_PARAMS)
            assert limit is not None
            assert floor <= action.bid <= limit < on_demand_price
            assert max_bid is None or action.bid <= max_bid
