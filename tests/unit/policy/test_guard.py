"""The second reading: every reason for a veto, at its exact limit, and nothing vetoed that only gives back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.actions import (
    Acquire,
    Action,
    ChangeBid,
    Decision,
    Promote,
    Release,
    RunAgain,
    SaveAndStop,
    SetStatus,
    Veto,
)
from autopilot.domain.after import After
from autopilot.domain.certificate import Lack, UseProof
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.launches import NO_LAUNCHES, LaunchCount
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Allowance, Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.budget import start_reserve, stop_cost
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, allowance, guard
from autopilot.policy.purse import MarketPurse, Purse
from tests.builders import (
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
    exposure,
    limits,
)

P = Params()
OFFER = an_offer(storage_price=D("0.720"))  # 20 GB: $0.02/h
RATE, DISK = D("0.230"), D("0.020")
NANO = D("0.000000001")
RESERVE = start_reserve(a_job(), OFFER, RATE, P)
SPOT = Acquire(Slot.MAIN, OFFER, CapacityType.SPOT, RATE, Reason.CHEAPEST)
ON_DEMAND = Acquire(Slot.MAIN, OFFER, CapacityType.ON_DEMAND, D("0.600"), Reason.DEADLINE)
RAISE = ChangeBid("lease-1", D("0.360"), Reason.OUTBID)
GROWTH = stop_cost(D("0.360"), D("0.004"), P) - stop_cost(D("0.300"), D("0.004"), P)


def read(
    *actions: Action,
    job: Job | None = None,
    market: Market | None = None,
    account: Exposure | None = None,
    caps: Limits | None = None,
) -> tuple[tuple[Action, ...], tuple[Veto, ...]]:
    job = job or a_job()
    account = account or exposure(*job.leases)
    return guard(job, Decision(actions, ()), market or a_market(OFFER), account, caps or limits(), START, P)


def reason(*actions: Action, **given: Any) -> Reason | None:
    """Why the only action was vetoed, or None when it passed."""
    allowed, vetoes = read(*actions, **given)
    assert len(allowed) + len(vetoes) == len(actions) == 1
    assert not vetoes or vetoes[0].action == actions[0]
    return vetoes[0].reason if vetoes else None


OTHERS = (a_lease("x"), a_lease("y"))
OPEN = 2 * stop_cost(D("0.300"), D("0.004"), P)


def a_token_with(allowance: Decimal | None, *, has_ended: bool = False) -> Exposure:
    """It has spent $3, and the machines of another job of it run."""
    others = tuple(replace(lease, job_id="sibling") for lease in OTHERS)
    stranger = replace(a_lease("z", bid=D(9)), job_id="stranger")
    purse = Purse(allowance, D(3), frozenset(["sibling", a_job().id]), has_ended)
    return replace(exposure(*others, stranger), purses={a_job().id: (purse,)})


def test_an_allowance_leaves_what_the_token_s_jobs_have_neither_spent_nor_committed() -> None:
    account = a_token_with(D(10))
    assert allowance(account, limits(), P, a_job()).purse == 7 - OPEN
    assert allowance(account, limits(), P).purse is None
    assert allowance(account, limits(), P, replace(a_job(), id="stranger")).purse is None
    begun = replace(a_job(), launches=1)
    assert allowance(a_token_with(D(10), has_ended=True), limits(), P, begun).purse == 7 - OPEN
    assert allowance(a_token_with(D(10), has_ended=True), limits(), P, a_job()).purse == 0
    purse = account.purses[a_job().id][0]
    assert purse.burn(account.leases) == D("0.608")


def test_nothing_is_rented_for_a_job_that_waits_for_others() -> None:
    waits = a_job(spec=a_spec(after=(After("prepare"),)))
    assert reason(SPOT, job=waits) is Reason.WAITING_FOR_JOBS
    assert decide(waits, a_market(OFFER), START, P).actions == ()
    begun = replace(waits, predecessors_ended_at=START)
    assert reason(SPOT, job=begun) is None
    assert decide(begun, a_market(OFFER), START, P).actions != ()


@pytest.mark.parametrize(
    ("within", "beyond", "veto"),
    [
        pytest.param(
            {"job": a_job(spec=a_spec(budget=3 + RESERVE), spent=D(3))},
            {"job": a_job(spec=a_spec(budget=3 + RESERVE), spent=3 + NANO)},
            Reason.OVER_BUDGET,
            id="budget",
        ),
        pytest.param(
            {"job": a_job(spec=a_spec(max_rate=RATE + DISK))},
            {"job": a_job(spec=a_spec(max_rate=RATE + DISK - NANO))},
            Reason.OVER_RATE_LIMIT,
            id="the job's burn",
        ),
        pytest.param(
            {"account": exposure(*OTHERS, spent_day=D(3)), "caps": limits(day=3 + OPEN + RESERVE)},
            {"account": exposure(*OTHERS, spent_day=3 + NANO), "caps": limits(day=3 + OPEN + RESERVE)},
            Reason.OVER_DAY_LIMIT,
            id="day",
        ),
        pytest.param(
            {"account": exposure(*OTHERS, spent_month=D(3)), "caps": limits(month=3 + OPEN + RESERVE)},
            {"account": exposure(*OTHERS, spent_month=3 + NANO), "caps": limits(month=3 + OPEN + RESERVE)},
            Reason.OVER_MONTH_LIMIT,
            id="month",
        ),
        pytest.param(
            {"account": a_token_with(3 + OPEN + RESERVE)},
            {"account": a_token_with(3 + OPEN + RESERVE - NANO)},
            Reason.OVER_ALLOWANCE,
            id="allowance",
        ),
        pytest.param(
            {"account": a_token_with(None)},
            {"account": a_token_with(None, has_ended=True)},
            Reason.OVER_ALLOWANCE,
            id="a token that has ended",
        ),
        pytest.param(
            {"account": exposure(*OTHERS), "caps": limits(max_hourly=D("0.608") + RATE + DISK)},
            {"account": exposure(*OTHERS), "caps": limits(max_hourly=D("0.608") + RATE + DISK - NANO)},
            Reason.OVER_RATE_LIMIT,
            id="the account's burn",
        ),
        pytest.param(
            {"account": exposure(*OTHERS), "caps": limits(max_instances=3)},
            {"account": exposure(*OTHERS), "caps": limits(max_instances=2)},
            Reason.TOO_MANY_INSTANCES,
            id="instances",
        ),
        pytest.param(
            {"account": exposure(launches_job_10min=LaunchCount(2, 9)), "caps": limits(launches_per_job_10min=3)},
            {"account": exposure(launches_job_10min=LaunchCount(3)), "caps": limits(launches_per_job_10min=3)},
            Reason.TOO_MANY_LAUNCHES,
            id="launches of the job",
        ),
        pytest.param(
            {"account": exposure(launches_hour=LaunchCount(8, 99)), "caps": limits(launches_per_hour=11)},
            {"account": exposure(launches_hour=LaunchCount(9)), "caps": limits(launches_per_hour=11)},
            Reason.TOO_MANY_LAUNCHES,
            id="launches of the account",
        ),
        pytest.param(
            {"account": exposure(launches_job_10min=LaunchCount(refused=19))},
            {"account": exposure(launches_job_10min=LaunchCount(refused=20))},
            Reason.TOO_MANY_REFUSALS,
            id="refusals of the job",
        ),
        pytest.param(
            {"account": exposure(launches_hour=LaunchCount(refused=199))},
            {"account": exposure(launches_hour=LaunchCount(refused=200))},
            Reason.TOO_MANY_REFUSALS,
            id="refusals of the account",
        ),
        pytest.param(
            {"market": a_market(OFFER, credit=RESERVE)},
            {"market": a_market(OFFER, credit=RESERVE - NANO)},
            Reason.LOW_CREDIT,
            id="credit",
        ),
        pytest.param(
            {"job": a_job(spec=a_spec(max_bid=RATE))},
            {"job": a_job(spec=a_spec(max_bid=RATE - D("0.001")))},
            Reason.BID_ABOVE_CEILING,
            id="ceiling",
        ),
        pytest.param(
            {"market": a_market(OFFER)}, {"market": a_market(OFFER, known=False)}, Reason.MARKET_UNKNOWN, id="unknown"
        ),
        pytest.param({"job": a_job(a_new_home())}, {"job": a_job(a_lease())}, Reason.SLOT_TAKEN, id="slot"),
        pytest.param(
            {}, {"job": a_job(an_intent(create_unknown=True))}, Reason.SLOT_TAKEN, id="slot of an open create"
        ),
    ],
)
def test_a_launch_passes_at_each_limit_and_not_beyond(
    within: dict[str, object], beyond: dict[str, object], veto: Reason
) -> None:
    assert reason(SPOT, **within) is None
    assert reason(SPOT, **beyond) is veto


def test_the_numbers_of_a_veto_are_the_two_that_were_compared() -> None:
    _, poor = read(SPOT, market=a_market(OFFER, credit=RESERVE - NANO))
    assert poor[0].numbers == (("credit", RESERVE - NANO), ("reserve", RESERVE))
    _, fast = read(SPOT, job=a_job(spec=a_spec(max_rate=RATE)))
    assert fast[0].numbers == (("burn", RATE + DISK), ("limit", RATE))


def test_what_is_left_is_beyond_all_that_is_spent_committed_and_held() -> None:
    gone = a_lease("gone", state=LeaseState.GONE)
    used = exposure(*OTHERS, gone, spent_day=D(2), spent_month=D(5), held=D("0.5"))
    caps = limits(day=D(10), month=D(100), max_hourly=D(2), max_instances=5)
    left = Allowance(D("7.5") - OPEN, D("94.5") - OPEN, D(2) - D("0.608"), 3)
    assert allowance(used, caps, P) == left
    open_ended = replace(caps, day=None, month=None, max_hourly=None)
    assert allowance(used, open_ended, P) == Allowance(None, None, None, 3)
    assert allowance(used, replace(caps, day=None), P) == replace(left, day=None)
    assert allowance(used, replace(caps, month=None), P) == replace(left, month=None)


def test_launches_and_refusals_add_up_apart() -> None:
    assert LaunchCount(1, 2) + LaunchCount(3, 4) == LaunchCount(4, 6)
    assert LaunchCount(0, 0) == NO_LAUNCHES + NO_LAUNCHES


def test_launches_are_kept_back_for_a_job_whose_deadline_presses() -> None:
    used, caps = exposure(launches_hour=LaunchCount(15)), limits(launches_per_hour=20)
    assert reason(SPOT, account=used, caps=caps) is Reason.TOO_MANY_LAUNCHES
    assert reason(replace(SPOT, reason=Reason.DEADLINE), account=used, caps=caps) is None
    full = exposure(launches_hour=LaunchCount(20))
    assert reason(replace(SPOT, reason=Reason.DEADLINE), account=full, caps=caps) is Reason.TOO_MANY_LAUNCHES


def test_a_market_that_is_not_ours_is_unknown() -> None:
    assert reason(SPOT, market=Market({})) is Reason.MARKET_UNKNOWN


def test_no_bid_without_a_bound() -> None:
    unbounded = Acquire(Slot.MAIN, an_offer(on_demand_price=None), CapacityType.SPOT, D("0.1"), Reason.CHEAPEST)
    assert reason(unbounded) is Reason.BID_ABOVE_CEILING


def test_on_demand_has_no_ceiling_but_the_users_own() -> None:
    assert reason(ON_DEMAND) is None
    assert reason(ON_DEMAND, job=a_job(spec=a_spec(max_bid=D("0.100")))) is None, "max_bid is about bids"
    assert reason(ON_DEMAND, job=a_job(spec=a_spec(max_hourly=D("0.600")))) is None
    assert reason(ON_DEMAND, job=a_job(spec=a_spec(max_hourly=D("0.599")))) is Reason.OVER_RATE_LIMIT


@pytest.mark.parametrize(
    ("within", "beyond", "veto"),
    [
        pytest.param({"max_bid": D("0.360")}, {"max_bid": D("0.359")}, Reason.BID_ABOVE_CEILING, id="ceiling"),
        pytest.param(
            {"budget": stop_cost(D("0.360"), D("0.004"), P)},
            {"budget": stop_cost(D("0.360"), D("0.004"), P) - NANO},
            Reason.OVER_BUDGET,
            id="budget",
        ),
        pytest.param({"max_rate": D("0.364")}, {"max_rate": D("0.363")}, Reason.OVER_RATE_LIMIT, id="burn"),
    ],
)
def test_a_raise_reserves_its_growth(within: dict[str, Decimal], beyond: dict[str, Decimal], veto: Reason) -> None:
    lease = a_paused_lease()
    assert reason(RAISE, job=a_job(lease, spec=a_spec(**within))) is None
    assert reason(RAISE, job=a_job(lease, spec=a_spec(**beyond))) is veto


def test_a_raise_is_held_to_the_accounts_caps() -> None:
    job = a_job(a_paused_lease())
    open_now = stop_cost(D("0.300"), D("0.004"), P)
    assert reason(RAISE, job=job, caps=limits(day=open_now + GROWTH)) is None
    assert reason(RAISE, job=job, caps=limits(day=open_now + GROWTH - NANO)) is Reason.OVER_DAY_LIMIT
    assert reason(RAISE, job=job, caps=limits(month=open_now + GROWTH - NANO)) is Reason.OVER_MONTH_LIMIT
    assert reason(RAISE, job=job, caps=limits(max_hourly=D("0.363"))) is Reason.OVER_RATE_LIMIT


def test_a_raise_without_a_bound_is_vetoed_and_a_lower_bid_never() -> None:
    unbounded = a_job(a_paused_lease(on_demand_price=None))
    assert reason(RAISE, job=unbounded) is Reason.BID_ABOVE_CEILING
    lower = ChangeBid("lease-1", D("0.200"), Reason.OUTBID)
    assert reason(lower, job=a_job(a_paused_lease(), spec=a_spec(budget=D(0)))) is None


def test_of_two_launches_in_one_decision_one_passes() -> None:
    other = Acquire(Slot.NEXT, an_offer("machine-b"), CapacityType.SPOT, RATE, Reason.CHEAPEST)
    allowed, vetoes = read(SPOT, other)
    assert allowed == (SPOT,)
    assert [(veto.action, veto.reason) for veto in vetoes] == [(other, Reason.SLOT_TAKEN)]


def test_actions_of_one_decision_share_one_budget() -> None:
    job = a_job(a_paused_lease(), spec=a_spec(budget=stop_cost(D("0.300"), D("0.004"), P) + RESERVE))
    move = Acquire(Slot.NEXT, OFFER, CapacityType.SPOT, RATE, Reason.CHEAPER_ELSEWHERE)
    allowed, vetoes = read(move, RAISE, job=job)
    assert allowed == (move,)
    assert [veto.reason for veto in vetoes] == [Reason.OVER_BUDGET]


LET_GO = Release("lease-1", Reason.RETRY)


@pytest.mark.parametrize(
    ("actions", "holder", "passes"),
    [
        ((LET_GO, SPOT), a_lease(), True),
        ((SPOT, LET_GO), a_lease(), False),
        ((Release("lease-2", Reason.RETRY), SPOT), a_lease(), False),
        ((SaveAndStop("lease-1", Reason.RETRY), SPOT), a_lease(), False),
        ((LET_GO, SPOT), an_intent(), False),
        ((LET_GO, SPOT), an_intent(create_unknown=True, role=Role.LEAVE), False),
    ],
    ids=["released", "released later", "another released", "only saved", "not yet created", "perhaps created"],
)
def test_a_slot_is_free_once_its_holder_is_released_unless_that_may_not_exist_yet(
    actions: tuple[Action, ...], holder: Lease, passes: bool
) -> None:
    allowed, vetoes = read(*actions, job=a_job(holder))
    assert (SPOT in allowed) is passes
    assert [veto.reason for veto in vetoes] == ([] if passes else [Reason.SLOT_TAKEN])


@pytest.mark.parametrize(
    ("before", "passes"),
    [
        ([Release("lease-1", Reason.MOVING)], True),
        ([], False),
        ([SaveAndStop("lease-1", Reason.MOVING)], False),
        ([ChangeBid("lease-1", D("0.300"), Reason.OUTBID)], False),
        ([Release("lease-2", Reason.MOVING)], False),
    ],
)
def test_a_promotion_needs_the_old_home_released(before: list[Action], passes: bool) -> None:
    promote = Promote("lease-2", Reason.PROMOTED)
    _, vetoes = read(*before, promote, job=a_job(a_lease(), a_new_home()))
    assert [(veto.action, veto.reason) for veto in vetoes] == ([] if passes else [(promote, Reason.SLOT_TAKEN)])


@pytest.mark.parametrize(
    ("holder", "passes"),
    [
        (a_lease(exit_code=1), True),
        (a_lease(), False),
        (a_lease(exit_code=1, state=LeaseState.DESTROY_REQUESTED), False),
        (a_lease("lease-2", exit_code=1), False),
        (a_new_home("lease-1", exit_code=1), False),
    ],
    ids=["ended", "still runs", "leaving", "another", "not the main one"],
)
def test_a_machine_runs_again_only_once_its_run_has_ended(holder: Lease, passes: bool) -> None:
    veto = None if passes else Reason.SLOT_TAKEN
    assert reason(RunAgain("lease-1", Reason.RETRY), job=a_job(holder)) is veto


def test_a_promotion_into_a_free_slot_passes() -> None:
    leaving = a_lease(state=LeaseState.DESTROY_REQUESTED)
    assert reason(Promote("lease-2", Reason.PROMOTED), job=a_job(leaving, a_new_home())) is None


@pytest.mark.parametrize(
    "action",
    [
        Release("lease-1", Reason.OUTBID),
        SaveAndStop("lease-1", Reason.MOVING),
        SetStatus(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED),
    ],
)
def test_giving_back_is_never_vetoed(action: Action) -> None:
    job = a_job(a_lease(), spec=a_spec(budget=D(0)), spent=D(100))
    caps = limits(day=D(0), month=D(0), max_hourly=D(0), max_instances=0, launches_per_hour=0)
    assert reason(action, job=job, caps=caps, market=a_market(known=False, credit=D(-5))) is None


def without_certificate(lack: Lack = Lack.MISSING) -> Market:
    market = a_market(OFFER)
    return replace(market, providers={"vastai": replace(market.providers["vastai"], lack=lack)})


def with_market_purse(account: Exposure, left: Decimal, market: str = "vastai") -> Exposure:
    """``left``: beyond what is committed there."""
    purse = MarketPurse(D(50), D(0), market)
    unspent = purse.left(account.leases, P)
    assert unspent is not None, "it has a bound"
    return replace(account, market_purses={market: replace(purse, spent=unspent - left)})


@pytest.mark.parametrize("lack", Lack)
def test_an_allowance_stands_in_for_a_certificate_where_nothing_is_known_against_the_market(lack: Lack) -> None:
    account = with_market_purse(exposure(), D(20))
    may_be_tried = lack in (Lack.MISSING, Lack.EXPIRED, Lack.OTHER_ACCOUNT, Lack.OTHER_VERSION)
    expected = None if may_be_tried else Reason.NOT_CERTIFIED
    assert reason(SPOT, market=without_certificate(lack), account=account) is expected
    elsewhere = with_market_purse(exposure(), D(20), "runpod")
    assert reason(SPOT, market=without_certificate(lack), account=elsewhere) is Reason.NOT_CERTIFIED


def test_without_a_certificate_one_machine_at_a_time_of_all_jobs() -> None:
    market, others = without_certificate(), replace(a_lease("x"), job_id="another")
    assert reason(SPOT, market=market, account=with_market_purse(exposure(others), D(20))) is Reason.ONE_UNCERTIFIED
    on_another = replace(others, provider="runpod")
    assert reason(SPOT, market=market, account=with_market_purse(exposure(on_another), D(20))) is None
    orphan = replace(others, job_id=None)
    assert reason(SPOT, market=market, account=with_market_purse(exposure(orphan), D(20))) is Reason.ONE_UNCERTIFIED
    account = with_market_purse(exposure(others), D(20))
    of_certification = replace(account.market_purses["vastai"], certifications=frozenset(["another"]))
    account = replace(account, market_purses={"vastai": of_certification})
    assert reason(SPOT, market=market, account=account) is None


def test_an_allowance_bounds_rentals_raises_and_holds_on_its_market_alone() -> None:
    market = without_certificate()
    for action, job, growth in ((SPOT, a_job(), RESERVE), (RAISE, a_job(a_lease()), GROWTH)):
        account = exposure(*job.leases)
        assert reason(action, job=job, market=market, account=with_market_purse(account, growth)) is None
        short = with_market_purse(account, growth - NANO)
        assert reason(action, job=job, market=market, account=short) is Reason.OVER_UNCERTIFIED
        certifying = replace(job, certifies="vastai")
        assert reason(action, job=certifying, market=market, account=short) is None
    account = with_market_purse(exposure(), D(0), "runpod")
    assert reason(RAISE, job=a_job(a_lease()), account=account) is None


def test_a_machine_rented_under_a_certificate_draws_on_no_allowance() -> None:
    market, job = without_certificate(), a_job(a_lease())
    account = with_market_purse(exposure(*job.leases), D(0))
    ended = replace(account.market_purses["vastai"], since=START + timedelta(seconds=1))
    account = replace(account, market_purses={"vastai": ended})
    assert reason(RAISE, job=job, market=market, account=account) is None
    assert not ended.has_machine(job.leases)
    assert reason(SPOT, market=market, account=account) is Reason.OVER_UNCERTIFIED


def test_a_market_without_a_certificate_takes_nothing_new_but_its_certification() -> None:
    market = a_market(OFFER)
    uncertified = replace(market, providers={"vastai": replace(market.providers["vastai"], lack=Lack.EXPIRED)})
    assert reason(SPOT, market=uncertified) is Reason.NOT_CERTIFIED
    assert reason(ON_DEMAND, market=uncertified) is Reason.NOT_CERTIFIED
    assert reason(SPOT, job=replace(a_job(), certifies="vastai"), market=uncertified) is None
    assert reason(SPOT, job=replace(a_job(), certifies="runpod"), market=uncertified) is Reason.NOT_CERTIFIED
    held = a_job(a_lease())
    assert reason(RAISE, job=held, market=uncertified) is None
    assert reason(Release("lease-1", Reason.OUTBID), job=held, market=uncertified) is None


def heard_for(lease: Lease, ttl_s: int) -> Lease:
    """Its machine may work on for so long from now, without a word of the daemon's."""
    return replace(lease, permit=replace(lease.permit, renewed_at=START, ttl_s=ttl_s))


BESIDE = replace(SPOT, slot=Slot.NEXT)
UNHEARD_S = 720
"""What a quarter of an hour is beyond the time that is held back for a stop."""


@pytest.mark.parametrize(
    ("action", "growth", "burn"),
    [pytest.param(BESIDE, RESERVE, D("0.304"), id="rental"), pytest.param(RAISE, GROWTH, D("0.364"), id="raise")],
)
@pytest.mark.parametrize("cap", ["budget", "day", "month", "token", "uncertified"])
def test_growth_fits_beside_what_machines_may_bill_unheard(
    action: Action, growth: Decimal, burn: Decimal, cap: str
) -> None:
    """The daemon may be lost right after it: each machine then works to the end of its permit."""
    running = replace(a_lease(), observed=replace(a_lease().observed, price_to_win=D("0.350")))
    committed = stop_cost(D("0.300"), D("0.004"), P)

    def veto(left: Decimal, ttl_s: int) -> Reason | None:
        lease = heard_for(running, ttl_s)
        job, account = a_job(lease), exposure(lease)
        match cap:
            case "budget":
                return reason(action, job=a_job(lease, spec=a_spec(budget=committed + left)), account=account)
            case "day":
                return reason(action, job=job, account=account, caps=limits(day=committed + left))
            case "month":
                return reason(action, job=job, account=account, caps=limits(month=committed + left))
            case "token":
                purse = Purse(committed + left, D(0), frozenset([job.id]))
                return reason(action, job=job, account=replace(account, purses={job.id: (purse,)}))
        account = with_market_purse(account, left)
        proved = replace(account.market_purses["vastai"], proof=UseProof(START + timedelta(days=30)))
        return reason(action, job=job, account=replace(account, market_purses={"vastai": proved}))

    needed = growth + burn * UNHEARD_S / 3600
    assert veto(needed, 900) is None
    assert veto(needed - NANO, 900) is not None
    assert veto(growth, 900 - UNHEARD_S) is None, "what is left of the permit is held back with the stop"
