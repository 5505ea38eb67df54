"""``decide`` on a machine that it holds: one that loads, works, falls silent, is offline or near its end."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, Action, Release, RunAgain, SaveAndStop, SetStatus
from autopilot.domain.hosts import HostRecord, KnownHosts
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.market import Allowance, Market
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import FAILED_BEFORE, FailedStart, StartCause
from autopilot.policy.budget import stop_cost
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
    heartbeat,
    lease_of,
    play,
    seen,
)
from tests.leases import change_lease

P = Params().tune({"least_stretch": 1.0})
MARKET = a_market(an_offer("dear", floor=D("0.400")), an_offer("cheap", floor=D("0.100")))


def acts(job: Job, market: Market = MARKET, now: float = 0) -> tuple[Action, ...]:
    return decide(job, market, at(now), P).actions


def a_failed_lease(**changes: Any) -> Lease:
    """Its command has failed for the first time there, and its agent can run it again."""
    values: dict[str, Any] = {"exit_code": 1, "agent_failures": 1, "can_run_again": True, "agent_state": "finished"}
    return a_lease(**(values | changes))


AGAIN, ELSEWHERE = RunAgain("lease-1", Reason.RETRY), Release("lease-1", Reason.RETRY)


def test_a_failed_run_is_tried_again_on_its_machine() -> None:
    assert acts(a_job(a_failed_lease())) == (AGAIN,)


SOON = 600 - P.budget.save_timeout_s - P.timing.tick_lag_s


@pytest.mark.parametrize(
    ("changes", "now"),
    [
        ({"can_run_again": False}, 0),
        ({"agent_failures": 2}, 0),
        ({"failed_by_host": True}, 0),
        ({"role": Role.SAVE_AND_STOP, "stop_ordered_at": at(0)}, 0),
        ({"state": LeaseState.PAUSED, "running_since": None, "pause_cause": Reason.OUTBID}, 0),
        ({"offline_since": at(0)}, 0),
        ({"agent_state": "expired"}, 0),
        ({}, P.loading.silence_s),
        ({"not_after": at(600)}, SOON),
    ],
    ids=["old agent", "second failure", "host", "told to stop", "paused", "offline", "gave up", "silent", "expires"],
)
def test_where_that_cannot_help_the_machine_is_given_back_before_the_next_attempt(
    changes: dict[str, Any], now: float
) -> None:
    assert acts(a_job(a_failed_lease(**changes)), now=now) == (ELSEWHERE,)


def test_another_attempt_is_made_right_up_to_those_limits() -> None:
    assert acts(a_job(a_failed_lease()), now=P.loading.silence_s - 1) == (AGAIN,)
    assert acts(a_job(a_failed_lease(not_after=at(600))), now=SOON - 1) == (AGAIN,)


def test_a_failed_run_is_tried_again_while_a_new_home_gets_ready() -> None:
    assert acts(a_job(a_failed_lease(), a_new_home())) == (AGAIN,)


def test_a_job_without_money_or_that_is_cancelled_is_not_tried_again() -> None:
    poor = a_job(a_failed_lease(), spec=a_spec(budget=D(1)), spent=D(1))
    assert AGAIN not in acts(poor)
    assert acts(poor) == (SaveAndStop("lease-1", Reason.BUDGET_EXHAUSTED),)
    used_up = replace(MARKET, allowance=Allowance(day=D(0)))
    assert acts(a_job(a_failed_lease()), used_up) == (SaveAndStop("lease-1", Reason.OVER_DAY_LIMIT),)
    cancelled = a_job(a_failed_lease(), status=JobStatus.CANCELLING, reason=Reason.USER_CANCELLED)
    assert acts(cancelled) == (Release("lease-1", Reason.USER_CANCELLED),)


def test_a_machine_that_does_not_begin_the_new_run_is_given_up() -> None:
    job = play(a_job(a_failed_lease()), e.RunOrdered("lease-1", Reason.RETRY, at(0)))
    fill_s = float(lease_of(job).disk_gb) * 8000 / P.loading.preparing_mbps
    longest = P.loading.preparing_least_s + fill_s

    def heard(now: float) -> Job:
        return play(
            job, seen(lease_of(job), InstanceStatus.RUNNING, at(now)), heartbeat(lease_of(job), at(now), "waiting")
        )

    assert acts(heard(longest - 1), now=longest - 1) == ()
    assert acts(heard(longest), now=longest) == (Release("lease-1", Reason.STUCK_LOADING),)
    job = heard(3600)
    job = play(job, seen(lease_of(job), InstanceStatus.OFFLINE, at(3660)))
    job = heard(3700)
    assert acts(heard(longest), now=longest) == (Release("lease-1", Reason.STUCK_LOADING),), (
        "a host that is shown as lost"
    )


def test_a_machine_is_given_back_at_the_end_of_its_life() -> None:
    lease, soon = a_lease(not_after=at(600)), 600 - P.budget.save_timeout_s - P.timing.tick_lag_s
    assert acts(a_job(lease), a_market(), soon - 1) == ()
    assert acts(a_job(lease), a_market(), soon) == (SaveAndStop("lease-1", Reason.EXPIRING),)
    told = change_lease(lease, role=Role.SAVE_AND_STOP, stop_ordered_at=at(soon))
    assert acts(a_job(told), a_market(), soon + 60) == ()
    assert acts(a_job(change_lease(told, agent_saved=True)), a_market(), soon + 60) == (
        Release("lease-1", Reason.EXPIRING),
    )


@pytest.mark.parametrize(
    "lease",
    [
        a_lease(not_after=START),
        a_paused_lease(not_after=START, pause_cause=Reason.OUT_OF_CREDIT),
        a_lease(not_after=START, status=InstanceStatus.OFFLINE, running_since=None, offline_since=START),
        a_lease(not_after=START, status=InstanceStatus.PROVISIONING, running_since=None, agent_state=""),
    ],
    ids=["working", "paused", "offline", "loading"],
)
def test_the_end_of_its_life_is_absolute(lease: Lease) -> None:
    assert acts(a_job(lease), a_market()) == (Release("lease-1", Reason.EXPIRING),)


def test_a_lost_host_is_waited_for_a_little() -> None:
    lease = a_lease(status=InstanceStatus.OFFLINE, running_since=None, offline_since=START)
    assert acts(a_job(lease), now=P.loading.offline_grace_s - 1) == ()
    assert acts(a_job(lease), now=P.loading.offline_grace_s) == (Release("lease-1", Reason.HOST_LOST),)


def test_a_machine_that_loads_for_ever_is_given_up() -> None:
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseAcquired("lease-1", "77", at(0)))
    assert acts(job, now=P.loading.timeout_s - 1) == ()
    assert acts(job, now=P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_a_machine_whose_agent_never_reports_is_given_up() -> None:
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseAcquired("lease-1", "77", at(0)))
    job = play(job, seen(job.leases[0], InstanceStatus.RUNNING, at(60)))
    assert acts(job, now=60 + P.loading.silence_s - 1) == ()
    assert acts(job, now=60 + P.loading.silence_s) == (Release("lease-1", Reason.AGENT_SILENT),)
    assert acts(job, now=P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)
    reported = play(job, heartbeat(job.leases[0], at(900), "restoring"))
    assert acts(reported, a_market(), P.loading.timeout_s) == ()


PREPARING_S = P.loading.preparing_least_s + 8000 * float(a_lease().disk_gb) / P.loading.preparing_mbps


@pytest.mark.parametrize("state", ["waiting", "setting_up", "restoring"])
def test_a_machine_that_never_gets_to_begin_the_command_is_given_up(state: str) -> None:
    """Its agent talks all the time, so it is neither stuck loading nor silent: an input that hangs, say."""
    job = play(a_job(a_lease(agent_state="")), heartbeat(a_lease(), at(60), state))
    nearly, then = 60 + PREPARING_S - 1, 60 + PREPARING_S
    job = play(job, heartbeat(job.leases[0], at(nearly), state))
    assert acts(job, a_market(), nearly) == ()
    assert acts(job, a_market(), then) == (Release("lease-1", Reason.STUCK_LOADING),)
    given_up = play(job, e.ReleaseRequested("lease-1", Reason.STUCK_LOADING, at(then)))
    assert len(given_up.failed_starts) == len(job.failed_starts) + 1
    begun = play(job, heartbeat(job.leases[0], at(then), "running"))
    assert acts(begun, a_market(), then) == ()
    again = play(begun, heartbeat(begun.leases[0], at(then + 60), "restoring", boot=2))
    assert acts(again, a_market(), then + 61) == (), "a new boot gets its full time again"


@pytest.mark.parametrize(("state", "after"), [("running", P.loading.silence_s), ("left", 1), ("expired", 1)])
def test_a_machine_whose_agent_falls_silent_or_gives_up_is_given_back(state: str, after: float) -> None:
    job = play(a_job(a_lease()), heartbeat(a_lease(), at(60), state))
    silent = (Release("lease-1", Reason.AGENT_SILENT),)
    assert acts(job, a_market(), 60 + after) == silent
    assert acts(job, a_market(), 60 + after - 1) == (() if state == "running" else silent)


@pytest.mark.parametrize("back", [InstanceStatus.PROVISIONING, InstanceStatus.RUNNING])
def test_a_host_that_was_lost_for_a_moment_is_not_taken_for_one_that_never_loaded(back: InstanceStatus) -> None:
    lease = a_lease()
    job = play(a_job(lease), seen(lease, InstanceStatus.OFFLINE, at(7200)), seen(lease, back, at(7230)))
    assert acts(job, a_market(), 7231) == ()
    assert acts(job, a_market(), 7230 + P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_a_machine_that_loads_again_after_a_pause_gets_its_time_again() -> None:
    lease = a_lease()
    job = play(
        a_job(lease),
        seen(lease, InstanceStatus.STOPPED, at(7200)),
        e.BidIntended(lease.id, D("0.360"), at(7201)),
        seen(lease, InstanceStatus.PROVISIONING, at(7230), bid=D("0.360")),
    )
    assert acts(job, now=7231) == (), "a raise that won is not thrown away"
    assert acts(job, now=7230 + P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_a_machine_that_was_never_heard_does_not_get_its_time_again_after_a_pause() -> None:
    """Outbid just before it is given up, and woken, it billed for up to twice the time."""
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseAcquired("lease-1", "77", at(0)))
    job = play(job, seen(job.leases[0], InstanceStatus.RUNNING, at(120)))
    job = play(job, seen(job.leases[0], InstanceStatus.STOPPED, at(1000)))
    job = play(job, seen(job.leases[0], InstanceStatus.PROVISIONING, at(1060)))
    assert acts(job, now=60 + P.loading.timeout_s - 1) == ()
    assert acts(job, now=60 + P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_a_run_told_to_stop_whose_new_home_was_lost_is_not_kept_idle() -> None:
    told = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START)
    assert acts(a_job(told), a_market(), 30) == ()
    assert acts(a_job(told), a_market(), P.budget.save_timeout_s) == (Release("lease-1", Reason.MOVING),)
    saved = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, agent_saved=True)
    assert acts(a_job(saved), a_market(), 30) == (Release("lease-1", Reason.MOVING),)


def test_a_save_that_is_claimed_and_never_verified_is_waited_for_no_longer_than_any_other() -> None:
    claimed = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, agent_saved=True, last_checkpoint_number=7)
    job, most = a_job(claimed, spec=a_spec(budget=D(1)), spent=D(1)), P.budget.save_timeout_s
    assert acts(job, a_market(), most - 1) == ()
    release, parked = acts(job, a_market(), most)
    assert release == Release("lease-1", Reason.BUDGET_EXHAUSTED)
    assert isinstance(parked, SetStatus)
    assert parked.status is JobStatus.PARKED


def test_a_working_machine_is_kept() -> None:
    lease = a_lease(agent_seen_at=at(7200))
    assert acts(a_job(lease), a_market(an_offer("as-good", floor=D("0.260"))), 7200) == ()


@pytest.mark.parametrize(
    ("offer", "now", "moves"),
    [
        pytest.param(an_offer(floor=D("0.100")), 1800, True, id="much cheaper"),
        pytest.param(an_offer(floor=D("0.100")), 1799, False, id="it has only just begun"),
        pytest.param(an_offer(floor=D("0.257")), 1800, False, id="not cheaper enough"),
    ],
)
def test_a_working_job_is_moved_for_a_saving_that_is_worth_it(offer: Offer, now: float, moves: bool) -> None:
    found = acts(a_job(a_lease(agent_seen_at=at(now))), a_market(offer), now)
    assert len(found) == moves
    for action in found:
        assert isinstance(action, Acquire)
        assert (action.slot, action.reason) == (Slot.NEXT, Reason.CHEAPER_ELSEWHERE)


def test_a_job_without_an_estimate_is_not_moved_for_price() -> None:
    lease = a_lease(agent_seen_at=at(7200))
    assert acts(a_job(lease, spec=a_spec(work_estimate=None)), MARKET, 7200) == ()


def test_a_job_near_its_deadline_is_not_moved_for_price() -> None:
    lease = a_lease(capacity_type=CapacityType.ON_DEMAND, bid=D("0.600"), agent_seen_at=at(1800))
    job = a_job(lease, spec=a_spec(deadline=START + 12 * HOUR))
    assert acts(job, MARKET, 1800) == ()
    easy = a_job(lease, spec=a_spec(deadline=START + 24 * HOUR))
    assert len(acts(easy, MARKET, 1800)) == 1


@pytest.mark.parametrize(
    ("allowance", "max_rate", "goes_first"),
    [
        (Allowance(), None, False),
        (Allowance(hourly=D(5), instances=1), D(5), False),
        (Allowance(hourly=D("0.50")), None, True),
        (Allowance(instances=0), None, True),
        (Allowance(), D("0.80"), True),
        (Allowance(hourly=D("0.20")), None, False),
        (Allowance(instances=0), D("0.40"), False),
    ],
    ids=["no caps", "room", "hourly", "instances", "its own rate", "not even then", "nor by its own rate"],
)
def test_without_room_beside_it_the_machine_that_works_makes_way_for_the_deadline(
    allowance: Allowance, max_rate: Decimal | None, goes_first: bool
) -> None:
    """The machine burns $0.30/h, on demand is $0.60/h: one fits below most of these caps, both do not."""
    spec = a_spec(work_estimate=10 * HOUR, deadline=START + 10.5 * HOUR, max_rate=max_rate)
    job, market = a_job(a_lease(), spec=spec), replace(a_market(an_offer("other")), allowance=allowance)
    actions = acts(job, market)
    assert (actions == (SaveAndStop("lease-1", Reason.DEADLINE),)) is goes_first
    if not goes_first and max_rate != D("0.40"):
        (action,) = actions
        assert isinstance(action, Acquire)


def test_no_room_is_made_where_that_is_no_use_or_there_is_nothing_to_save() -> None:
    spec = a_spec(work_estimate=10 * HOUR, deadline=START + 10.5 * HOUR)
    market = a_market(an_offer("other"))
    full = replace(market, allowance=Allowance(instances=0))
    loading = a_lease(agent_state="", running_since=None, status=InstanceStatus.PROVISIONING)
    assert acts(a_job(loading, spec=spec), full) == (Release("lease-1", Reason.DEADLINE),)
    leaving = a_lease("lease-2", state=LeaseState.DESTROY_REQUESTED, role=Role.LEAVE)
    spent = replace(market, allowance=Allowance(day=D("0.01"), instances=0))
    for job, seen_now in ((a_job(a_lease(), leaving, spec=spec), full), (a_job(a_lease(), spec=spec), spent)):
        (action,) = acts(job, seen_now)
        assert isinstance(action, Acquire), "the guard refuses it, and the machine that works goes on"


def test_a_working_spot_job_escalates_when_one_more_loss_would_miss_the_deadline() -> None:
    def now_at(hours_left: float) -> tuple[Action, ...]:
        return acts(a_job(a_lease(), spec=a_spec(deadline=START + hours_left * HOUR)), a_market(an_offer()))

    assert now_at(10.6) == ()
    (move,) = now_at(10.58)
    assert isinstance(move, Acquire)
    assert (move.slot, move.capacity_type, move.reason) == (Slot.NEXT, CapacityType.ON_DEMAND, Reason.DEADLINE)


def test_an_escalation_beyond_the_budget_stays_where_it_is() -> None:
    lease = a_lease()
    spec = a_spec(deadline=START + 11 * HOUR, budget=stop_cost(lease.bid, lease.storage_rate, P) + D("0.05"))
    assert acts(a_job(lease, spec=spec), a_market(an_offer())) == ()


def known_to_load(seconds: float) -> Market:
    """On another machine of the same market."""
    record = HostRecord("vastai", "another", "h", "RTX 4090", START).with_loaded(a_spec().image, seconds)
    return replace(MARKET, hosts=KnownHosts.of({record.key: record}))


def silent_starts(count: int, fault: str = "") -> tuple[FailedStart, ...]:
    return tuple(
        FailedStart(f"before-{number}", f"vastai/{number}", fault, "", START, is_over=True) for number in range(count)
    )


@pytest.mark.parametrize(
    ("loaded_s", "before", "patience_s"),
    [
        (60, (), P.loading.known_least_s),  # the image's layers may have been there
        (400, (), 800),
        (5000, (), P.loading.timeout_s),
        (400, silent_starts(1), 1200),  # it may take longer than it did
        (400, silent_starts(2), P.loading.timeout_s),
        (400, silent_starts(9), P.loading.timeout_s),
        (400, silent_starts(2, "disk_full"), 800),  # those say nothing of how long it takes
    ],
)
def test_where_an_image_has_come_up_a_machine_loads_little_longer_than_it_took_there(
    loaded_s: float, before: tuple[FailedStart, ...], patience_s: float
) -> None:
    loading = a_lease(agent_state="", agent_boot=0, status=InstanceStatus.PROVISIONING, running_since=None)
    job = a_job(loading, failed_starts=before)
    assert acts(job, known_to_load(loaded_s), now=patience_s - 1) == ()
    assert acts(job, known_to_load(loaded_s), now=patience_s) == (Release("lease-1", Reason.STUCK_LOADING),)


POOL = "RTX 4090/COMMUNITY"
ON_A_DUD: dict[str, Any] = {"machine_id": POOL, "host_id": "one", "agent_state": "", "agent_boot": 0}


def knows_a_dud(is_pooled: bool = True) -> Market:
    dud = HostRecord("vastai", "one", POOL, "RTX 4090", START, launches=1.0, failed=1.0)
    market = a_market(an_offer(POOL, host_id=""), is_pooled=is_pooled)
    return replace(market, hosts=KnownHosts.of({dud.key: dud}))


@pytest.mark.parametrize(
    ("lease", "before", "is_pooled", "is_left"),
    [
        (a_lease(**ON_A_DUD), (), True, True),
        (a_lease(**ON_A_DUD, status=InstanceStatus.PROVISIONING, running_since=None), (), True, True),
        (a_lease(**ON_A_DUD), silent_starts(P.loading.most_left_at_once - 1, FAILED_BEFORE), True, True),
        (a_lease(**ON_A_DUD), silent_starts(P.loading.most_left_at_once, FAILED_BEFORE), True, False),
        (a_lease(**ON_A_DUD | {"agent_boot": 1}), (), True, False),
        (a_lease(**ON_A_DUD | {"host_id": "two"}), (), True, False),
        (a_lease(**ON_A_DUD), (), False, False),
    ],
    ids=["it runs", "it loads", "again", "for ever", "it was heard", "another host", "chosen by us"],
)
def test_a_machine_that_a_pool_placed_on_a_host_that_fails_is_left_at_once(
    lease: Lease, before: tuple[FailedStart, ...], is_pooled: bool, is_left: bool
) -> None:
    left = Release(lease.id, Reason.FAILED_BEFORE)
    assert (left in acts(a_job(lease, failed_starts=before), knows_a_dud(is_pooled))) is is_left


def test_a_new_home_on_a_host_that_fails_is_left_at_once() -> None:
    new = a_new_home(**ON_A_DUD)
    assert acts(a_job(a_lease(), new), knows_a_dud()) == (Release(new.id, Reason.FAILED_BEFORE),)


def test_what_is_left_for_its_host_costs_and_says_nothing_of_the_image() -> None:
    lease = a_lease(**ON_A_DUD)
    job = play(a_job(lease), e.ReleaseRequested(lease.id, Reason.FAILED_BEFORE, at(3600)))
    (start,) = job.failed_starts
    assert (job.fruitless, start.fault, start.is_over, start.cause) == (0, FAILED_BEFORE, True, StartCause.HOST)
    assert start.cost > lease.bid


def test_a_new_home_is_given_up_early_where_the_image_has_come_up_on_three_machines() -> None:
    new = a_new_home(agent_state="", agent_boot=0, status=InstanceStatus.PROVISIONING, running_since=None)
    records = [HostRecord("vastai", name, "h", "RTX 4090", START).with_loaded(a_spec().image, 60) for name in "abc"]
    for known, patience_s in ((records[:2], P.loading.timeout_s), (records, P.loading.known_least_s)):
        job = a_job(a_lease(agent_seen_at=at(patience_s), last_seen_at=at(patience_s)), new)
        market = replace(MARKET, hosts=KnownHosts.of({record.key: record for record in known}))
        assert acts(job, market, now=patience_s - 1) == ()
        assert acts(job, market, now=patience_s) == (Release(new.id, Reason.STUCK_LOADING),)


def test_each_further_machine_on_which_the_image_came_up_speaks_against_a_silent_one() -> None:
    records = [HostRecord("vastai", name, "h", "RTX 4090", START).with_loaded(a_spec().image, 400) for name in "abc"]
    market = replace(MARKET, hosts=KnownHosts.of({record.key: record for record in records}))
    loading = a_lease(agent_state="", agent_boot=0, status=InstanceStatus.PROVISIONING, running_since=None)
    for silent, patience in ((2, 800), (3, 1200)):
        job = a_job(loading, failed_starts=silent_starts(silent))
        assert acts(job, market, now=patience - 1) == ()
        assert acts(job, market, now=patience) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_a_machine_that_has_worked_has_the_whole_time_however_fast_others_load() -> None:
    """It may have woken while no daemon was there to hear it."""
    lease = a_lease()
    stopped = seen(lease, InstanceStatus.STOPPED, at(60)), seen(lease, InstanceStatus.PROVISIONING, at(120))
    woken = play(a_job(lease), *stopped)
    assert acts(woken, known_to_load(60), now=120 + P.loading.timeout_s - 1) == ()
    assert acts(woken, known_to_load(60), now=120 + P.loading.timeout_s) == (Release("lease-1", Reason.STUCK_LOADING),)


def test_what_other_images_and_markets_took_shortens_nothing() -> None:
    loading = a_lease(agent_state="", agent_boot=0, status=InstanceStatus.PROVISIONING, running_since=None)
    other = HostRecord("runpod", "another", "h", "RTX 4090", START).with_loaded(a_spec().image, 60)
    own = HostRecord("vastai", "another", "h", "RTX 4090", START).with_loaded("another/image:1", 60)
    market = replace(MARKET, hosts=KnownHosts.of({other.key: other, own.key: own}))
    assert acts(a_job(loading), market, now=P.loading.timeout_s - 1) == ()
