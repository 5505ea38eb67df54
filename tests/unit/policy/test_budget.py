"""What a job has committed, and that a budget holds even when the agent never answers and the destroy is slow."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.actions import SaveAndStop, SetStatus
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import LeaseState, Permit, Role, cost_by_day, keep_watched
from autopilot.domain.money import ceil_nano
from autopilot.domain.offer import DeadMan
from autopilot.domain.params import Budget, Params
from autopilot.mailbox.orders import CHECKPOINTS_AHEAD
from autopilot.policy import budget
from tests.builders import (
    HOUR,
    START,
    D,
    a_job,
    a_lease,
    a_market,
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
from tests.leases import change_lease

P = Params()


def test_stop_cost_covers_detection_last_checkpoint_destroy_and_a_tail_of_disk() -> None:
    params = Params(budget=Budget(detect_s=60, save_timeout_s=300, destroy_s=60, tail_h=24))
    assert budget.stop_cost(D("3.6"), D("0.01"), params) == D("0.42") + D("0.24")


def test_the_reserve_of_a_create_adds_what_may_bill_unseen() -> None:
    params = Params(budget=Budget(settle_s=300))
    stop = budget.stop_cost(D("3.6"), D("0.012"), params)
    assert budget.create_reserve(D("3.6"), D("0.012"), params) == stop + D("0.301")


def test_each_lease_commits_until_it_is_over() -> None:
    intent, active, paused = an_intent("a"), a_lease("b"), a_paused_lease("c")
    leaving = a_lease("d", state=LeaseState.DESTROY_SENT)
    stop = budget.stop_cost(active.bid, active.storage_rate, P)
    assert [budget.commitment(lease, P) for lease in (intent, active, paused, leaving)] == [D("0.15"), stop, stop, stop]
    for state in (LeaseState.GONE, LeaseState.ABANDONED):
        assert budget.commitment(replace(active, state=state), P) == 0
    job = a_job(intent, active, paused, leaving, spent=D(7), status=JobStatus.RUNNING)
    assert budget.sum_committed(job, P) == 7 + D("0.15") + 3 * stop
    assert budget.left(job, P) is None
    assert budget.left(replace(job, spec=a_spec(budget=D(10))), P) == 10 - budget.sum_committed(job, P)


def test_a_create_that_may_have_run_unobserved_commits_until_its_bill_is_in() -> None:
    traffic = {"download_price": D("0.01"), "download_gb": D(3)}
    intent = change_lease(an_intent("a"), unobserved=D("0.3"), **traffic)
    assert budget.commitment(intent, P) == D("0.15") + D("0.3")
    given_up = replace(intent, state=LeaseState.ABANDONED, create_unknown=True)
    assert budget.commitment(given_up, P) == D("0.3") + D("0.03")
    found = replace(given_up, state=LeaseState.GONE, instance_id="77", acquired_at=START)
    assert budget.commitment(found, P) == D("0.3") + D("0.03")
    for lease in (given_up, found):
        assert budget.commitment(change_lease(lease, settled_at=START), P) == 0
    assert budget.commitment(replace(given_up, create_unknown=False), P) == 0, "the market said no"


def test_burn_is_all_that_may_bill_at_once() -> None:
    gone = a_lease("c", state=LeaseState.GONE)
    assert budget.burn([a_lease("a"), a_paused_lease("b"), gone]) == 2 * D("0.304")


def spent_by(job: Job, now: datetime) -> Decimal:
    return sum((sum(cost_by_day(lease, now).values(), D(0)) for lease in job.leases), D(0))


@pytest.mark.parametrize("rate", ["0.300", "2.500", "32.000"])
@pytest.mark.parametrize("disk", ["0", "0.004"])
@pytest.mark.parametrize("tick_s", [5, 30])
@pytest.mark.parametrize("answers", [True, False], ids=["agent saves", "agent never answers"])
def test_a_budget_is_never_overrun(rate: str, disk: str, tick_s: int, answers: bool) -> None:
    """Ticks until the job is parked and its machine given back; the market bills to the moment of the destroy."""
    lease = a_lease(bid=D(rate), storage_rate=D(disk), spans=())
    limit = budget.stop_cost(lease.bid, lease.storage_rate, P) + D(rate) / 2
    job = a_job(lease, spec=a_spec(budget=limit))
    told_at: datetime | None = None
    for now in (at(n * tick_s) for n in range(3 * 3600 // tick_s)):
        job = replace(play(job, seen(lease, InstanceStatus.RUNNING, now)), spent=spent_by(job, now))
        if told_at is None:
            job = play(job, heartbeat(lease, now))
        elif answers and now - told_at >= timedelta(seconds=60):
            job = play(job, heartbeat(lease, now, "saving", saved=True))
        actions, job = decided(job, a_market(), now)
        if any(isinstance(action, SaveAndStop) for action in actions):
            told_at = now
        if any(isinstance(action, SetStatus) for action in actions):
            break
    else:
        pytest.fail("the job was never parked")
    assert told_at is not None, "unsaved work was thrown away"
    assert now - told_at >= timedelta(seconds=60 if answers else P.budget.save_timeout_s)
    job = play(job, e.DestroySent(lease.id, True, now + timedelta(seconds=P.budget.destroy_s)))
    assert job.status is JobStatus.PARKED
    total = spent_by(job, now + HOUR)
    assert total <= limit
    assert total >= D(rate) / 2, "it stopped far too early"


def test_money_that_comes_late_does_not_leave_a_stopped_run_idle() -> None:
    told = a_lease(role=Role.SAVE_AND_STOP, stop_ordered_at=START, agent_saved=True)
    actions, job = decided(a_job(told, spec=a_spec(budget=D(100))), a_market(), at(60))
    assert [type(action).__name__ for action in actions] == ["Release"]
    assert job.main is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(InstanceStatus.RUNNING, id="running"),
        pytest.param(InstanceStatus.STOPPED, id="stopped: it may have woken up"),
        pytest.param(InstanceStatus.OFFLINE, id="offline: its host may be back"),
    ],
)
def test_unobserved_time_costs_the_most_and_nothing_of_it_is_booked(status: InstanceStatus) -> None:
    lease = change_lease(a_lease(bid=D("0.3"), storage_rate=D("0.01")), last_seen_at=START)
    stored = D(0) if status is InstanceStatus.OFFLINE else D("0.01")
    lease = replace(lease, spans=()).bill_as(status, D("0.3"), stored, START)
    assert budget.unobserved_cost(lease, START + HOUR, P) == D("0.31")
    assert not cost_by_day(keep_watched(lease, START + HOUR), START + HOUR)


def test_a_lease_without_word_for_a_quarter_of_an_hour_is_stale_until_it_is_over() -> None:
    lease = a_lease()
    word_at = lease.observed_at
    assert not budget.is_stale(lease, word_at + timedelta(minutes=15))
    assert budget.is_stale(lease, word_at + timedelta(minutes=15, seconds=1))
    assert not budget.is_stale(replace(lease, state=LeaseState.GONE), word_at + timedelta(days=1))


def test_unobserved_time_begins_with_the_last_sight_and_ends_with_the_last_span() -> None:
    lease = a_lease()
    (span,) = lease.spans
    since = max(lease.observed_at, span.started_at)
    assert budget.unobserved_cost(lease, since + HOUR, P) == lease.burn_upper
    dearer = lease.bill_as(InstanceStatus.RUNNING, D(7), D(0), since + HOUR / 2)
    assert budget.unobserved_cost(dearer, since + HOUR, P) == D(7), "a call of ours in between is no sight"
    closed = replace(lease, spans=(replace(span, ended_at=since),))
    assert budget.unobserved_cost(closed, since + HOUR, P) == lease.burn_upper
    assert budget.unobserved_cost(closed, since, P) == 0


@pytest.mark.parametrize(
    ("spec", "per_hour", "hours"),
    [
        pytest.param({}, "1", 24, id="nothing is known of its length"),
        pytest.param({"budget": D(5)}, "1", 5, id="as long as its money lasts"),
        pytest.param({"budget": D(50)}, "1", 24, id="at most as the parameters say"),
        pytest.param({"budget": D("0.5")}, "1", 1, id="at least an hour"),
        pytest.param({"budget": D(5)}, "0", 24, id="nothing burns"),
        pytest.param({"budget": D(5), "work_estimate": 3 * HOUR}, "1", 3, id="its estimate goes before its money"),
        pytest.param({"work_estimate": 30 * HOUR}, "1", 24, id="a long estimate"),
    ],
)
def test_a_slow_destroy_is_provided_for_as_long_as_the_job_is(spec: dict[str, Any], per_hour: str, hours: int) -> None:
    params = Params(budget=Budget(tail_h=24))
    job = a_job(spec=a_spec(**({"work_estimate": None} | spec)))
    assert budget.disk_tail(job, D(per_hour), params) == timedelta(hours=hours)
    stop = budget.stop_cost(D(2), D("0.25"), params, timedelta(hours=hours))
    assert stop == budget.stop_cost(D(2), D(0), params) + D("0.25") * hours


def test_what_a_start_sets_aside_is_for_its_own_bid_disk_and_tail() -> None:
    params = Params(budget=Budget(settle_s=3600, tail_h=24))
    job, offer = a_job(spec=a_spec(work_estimate=2 * HOUR)), an_offer(storage_price=D("7.2"))  # 20 GB: $0.20/h
    stop = budget.stop_cost(D(3), D("0.2"), params, 2 * HOUR)
    assert budget.start_reserve(job, offer, D(3), params) == stop + D("3.2") + budget.traffic_cost(
        offer.upload_price, offer.download_price, job, params
    )


def test_where_an_unwatched_machine_cannot_destroy_itself_more_is_set_aside() -> None:
    params = Params(budget=Budget(settle_s=3600, tail_h=24, unwatched_h=4))
    job, offer = a_job(spec=a_spec(work_estimate=2 * HOUR)), an_offer(storage_price=D("7.2"))  # 20 GB: $0.20/h
    usual = budget.start_reserve(job, offer, D(3), params)
    day_of_disk = usual + D("0.2") * 22
    assert budget.start_reserve(job, replace(offer, dead_man=DeadMan.POWERS_OFF), D(3), params) == day_of_disk
    assert budget.start_reserve(job, replace(offer, dead_man=DeadMan.NONE), D(3), params) == day_of_disk + D(3) * 4


def test_it_is_held_for_as_long_as_the_machine_lives() -> None:
    lease = a_lease(bid=D(2))
    held = budget.commitment(lease, Params())
    alone = replace(lease, billing=replace(lease.billing, unwatched=4 * HOUR))
    assert budget.commitment(alone, Params()) == held + D(8)
    assert {each.purpose for each in budget.holdings(alone, Params())} >= {"unwatched", "safe_stop"}
    assert budget.restart_reserve(alone, Params()) == budget.restart_reserve(lease, Params()) + D(8)
    over = replace(alone, state=LeaseState.GONE)
    assert "unwatched" not in {each.purpose for each in budget.holdings(over, Params())}


STOPPING_S = 180
"""With the parameters below: 60 to see, 300 to save, 60 to destroy, less the four minutes of the machine itself."""


@pytest.mark.parametrize(
    ("lefts", "ttl_s"),
    [
        pytest.param([], 900, id="no limit"),
        pytest.param([(None, D(1))], 900, id="a limit that is not set"),
        pytest.param([(D(0), D(0))], 900, id="nothing burns"),
        pytest.param([(D("0.1"), D(1))], STOPPING_S + 360, id="what is left lasts six minutes"),
        pytest.param([(D(1), D(1)), (D("0.1"), D(1)), (None, D(9))], STOPPING_S + 360, id="the shortest counts"),
        pytest.param([(D("0.5"), D(1))], 900, id="never longer than asked for"),
        pytest.param([(D(0), D(1))], STOPPING_S, id="nothing is left"),
        pytest.param([(D(-5), D(1))], STOPPING_S, id="less than nothing"),
    ],
)
def test_a_permit_lasts_as_long_as_the_money(lefts: list[tuple[Decimal | None, Decimal]], ttl_s: int) -> None:
    params = Params(budget=Budget(detect_s=60, save_timeout_s=300, destroy_s=60))
    assert budget.permit_ttl_s(lefts, 900, params) == ttl_s


def test_an_hour_of_money_is_an_hour_of_permit() -> None:
    params = Params(budget=Budget(detect_s=60, save_timeout_s=300, destroy_s=60))
    assert budget.permit_ttl_s([(D("0.5"), D("0.5"))], 7200, params) == STOPPING_S + 3600


def test_a_permit_never_ends_between_two_renewals_of_a_daemon_that_lives() -> None:
    params = Params(budget=Budget(detect_s=30, save_timeout_s=90, destroy_s=30))
    assert budget.permit_ttl_s([(D(0), D(1))], 900, params) == budget.PERMIT_LEAST_S == 180
    assert budget.permit_ttl_s([(D(0), D(1))], 100, params) == 100


def test_what_a_short_permit_may_still_cost_is_what_its_length_was_made_from() -> None:
    params = Params(budget=Budget(detect_s=60, save_timeout_s=300, destroy_s=60))
    lease = a_lease()
    ttl_s = budget.permit_ttl_s([(lease.burn_upper / 10, lease.burn_upper)], 900, params)
    under = replace(lease, permit=Permit(1, START, ttl_s))
    costs = [budget.permits_outstanding([under], START + timedelta(minutes=minutes), params) for minutes in (0, 3, 6)]
    assert costs == [ceil_nano(lease.burn_upper * share) for share in (D("0.1"), D("0.05"), D(0))]
    over, long = replace(under, state=LeaseState.GONE), replace(under, permit=Permit(1, START, 7200))
    assert budget.permits_outstanding([lease, over, long], START, params) == 0, (
        "no permit, none in force, one held back"
    )


def test_a_permit_is_held_back_for_every_address_that_its_machine_has() -> None:
    assert budget.SAVES_ALONE == CHECKPOINTS_AHEAD + 1, "checkpoints, and the outputs"
