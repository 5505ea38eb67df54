"""Playbooks: events go in, the job's status comes out. ``play`` checks the invariants after each event."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.domain import events as e
from autopilot.domain.evolve_lease import ABSENCE_GAP, evolve_lease
from autopilot.domain.instance import InstanceStatus, Stopper
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState, Role
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import StopEvidence
from tests.builders import (
    START,
    D,
    a_checkpoint,
    a_job,
    a_lease,
    a_paused_lease,
    an_instance,
    an_intent,
    at,
    heartbeat,
    lease_of,
    play,
    seen,
)

RUNNING, STOPPED = InstanceStatus.RUNNING, InstanceStatus.STOPPED
PROVISIONING, OFFLINE = InstanceStatus.PROVISIONING, InstanceStatus.OFFLINE


def test_from_the_intent_to_work() -> None:
    job, intent = a_job(), an_intent()
    job = play(job, e.LeaseIntended(intent, at(0)))
    assert (job.status, job.reason, job.launches, job.run_epoch) == (JobStatus.STARTING, Reason.LAUNCHING, 1, 1)
    assert (lease_of(job).orders.role, lease_of(job).orders.run_epoch) == (Role.RUN, 1)
    job = play(job, e.LeaseAcquired(intent.id, "77", at(3)))
    assert (job.status, job.reason) == (JobStatus.STARTING, Reason.PULLING)
    job = play(job, seen(lease_of(job), PROVISIONING, at(30)), seen(lease_of(job), RUNNING, at(60)))
    assert (job.status, lease_of(job).observed.running_since) == (JobStatus.STARTING, at(60)), (
        "the agent has not reported"
    )
    job = play(job, heartbeat(intent, at(90), "restoring"))
    assert job.status is JobStatus.STARTING
    job = play(job, heartbeat(intent, at(120), step=1))
    assert (job.status, job.reason, job.step) == (JobStatus.RUNNING, Reason.WORKING, 1)


@pytest.mark.parametrize(
    ("changes", "out_of_credit", "cause"),
    [
        ({}, False, Reason.UNKNOWN),
        ({"price_to_win": D("0.301")}, False, Reason.OUTBID),
        ({"price_to_win": D("0.300")}, False, Reason.UNKNOWN),
        ({"price_to_win": D("0.301"), "capacity_type": CapacityType.ON_DEMAND}, False, Reason.UNKNOWN),
        ({"stopped_by": Stopper.BIDDER}, False, Reason.OUTBID),
        ({"stopped_by": Stopper.BIDDER, "price_to_win": D("0.300")}, False, Reason.DISPLACED),
        ({"stopped_by": Stopper.BIDDER, "stop_said_at": at(-1)}, False, Reason.UNKNOWN),
        ({"stopped_by": Stopper.USER}, False, Reason.CONSOLE),
        ({"stopped_by": Stopper.USER, "price_to_win": D("0.301")}, False, Reason.CONSOLE),
        ({"stopped_by": Stopper.HOST}, False, Reason.HOST_LOST),
        ({"stopped_by": Stopper.USER}, True, Reason.OUT_OF_CREDIT),
        ({"capacity_type": CapacityType.ON_DEMAND}, False, Reason.UNKNOWN),
        ({"ends_at": at(50)}, False, Reason.EXPIRING),
        ({"ends_at": at(61)}, False, Reason.UNKNOWN),
        ({}, True, Reason.OUT_OF_CREDIT),
        ({"ends_at": at(50)}, True, Reason.OUT_OF_CREDIT),
    ],
)
def test_a_pause_has_a_cause(changes: dict[str, object], out_of_credit: bool, cause: Reason) -> None:
    lease = a_lease()
    job = play(a_job(lease), seen(lease, STOPPED, at(60), out_of_credit=out_of_credit, **changes))
    assert (job.status, job.reason) == (JobStatus.PAUSED, cause)
    paused = lease_of(job)
    assert (paused.state, paused.observed.paused_at, paused.observed.running_since) == (LeaseState.PAUSED, at(60), None)


@pytest.mark.parametrize("capacity_type", CapacityType)
def test_a_machine_that_stops_before_it_ever_ran_where_the_market_says_why(capacity_type: CapacityType) -> None:
    loading = a_lease(
        capacity_type=capacity_type,
        status=PROVISIONING,
        running_since=None,
        agent_boot=0,
        agent_state="",
        agent_seen_at=None,
    )
    job = play(a_job(loading), seen(loading, STOPPED, at(60), start_failed=True))
    assert (job.status, job.reason) == (JobStatus.PAUSED, Reason.STUCK_LOADING)
    released = play(job, e.ReleaseRequested(loading.id, Reason.STUCK_LOADING, at(60)))
    assert (len(released.failed_starts), lease_of(released).state) == (1, LeaseState.DESTROY_REQUESTED)
    silent = play(a_job(loading), seen(loading, STOPPED, at(60)))
    assert silent.reason is Reason.UNKNOWN
    broke = play(a_job(loading), seen(loading, STOPPED, at(60), out_of_credit=True, start_failed=True))
    assert broke.reason is Reason.OUT_OF_CREDIT


@pytest.mark.parametrize("ran", [{"agent_boot": 0}, {"status": PROVISIONING, "running_since": None}])
def test_a_machine_that_has_run_did_start(ran: dict[str, Any]) -> None:
    """The market showed it running, or its agent was heard."""
    lease = a_lease(**ran)
    job = play(a_job(lease), seen(lease, STOPPED, at(60), start_failed=True))
    assert job.reason is Reason.UNKNOWN


def test_what_is_known_of_a_stop_only_later_is_its_cause_from_the_beginning() -> None:
    job = play(a_job(a_lease()), seen(a_lease(), STOPPED, at(60)))
    assert job.reason is Reason.UNKNOWN
    job = play(job, seen(lease_of(job), STOPPED, at(75), price_to_win=D("0.400")))
    paused = lease_of(job)
    assert (job.reason, paused.observed.paused_at) == (Reason.OUTBID, at(60))
    assert [span.cause for span in paused.spans if span.status is STOPPED] == [Reason.OUTBID]
    job = play(job, seen(paused, STOPPED, at(90)))
    assert job.reason is Reason.OUTBID, "it was, regardless of what wins now"


def test_a_permit_that_had_run_out_is_the_cause_where_the_market_has_no_word_of_a_bid() -> None:
    over = StopEvidence(permit_over=True)
    for changes, cause in (
        ({}, Reason.PERMIT),
        ({"stopped_by": Stopper.USER}, Reason.PERMIT),
        ({"price_to_win": D("0.400")}, Reason.PERMIT),
        ({"stopped_by": Stopper.BIDDER, "price_to_win": D("0.400")}, Reason.OUTBID),
    ):
        shown = an_instance(a_lease(), status=STOPPED, **changes)
        assert play(a_job(a_lease()), e.LeaseObserved("lease-1", shown, at(60), over)).reason is cause


def test_a_certification_may_have_asked_for_the_stop_itself() -> None:
    lease = a_lease(reason=Reason.CERTIFYING)
    assert play(a_job(lease), seen(lease, STOPPED, at(60), stopped_by=Stopper.USER)).reason is Reason.UNKNOWN


def test_outbid_raised_and_resumed() -> None:
    lease = a_lease()
    job = play(a_job(lease), seen(lease, STOPPED, at(60)), seen(lease, STOPPED, at(90)))
    assert lease_of(job).observed.paused_at == at(60), "the pause began when it was first seen"
    job = play(job, e.BidIntended(lease.id, D("0.360"), at(91)), e.BidChanged(lease.id, D("0.360"), at(92)))
    assert (lease_of(job).bidding.raises, lease_of(job).bidding.changed_at) == (1, at(92))
    job = play(job, seen(lease, PROVISIONING, at(100), bid=D("0.360")))
    assert (lease_of(job).state, lease_of(job).bidding.raises) == (LeaseState.ACTIVE, 1)
    assert job.status is JobStatus.STARTING
    job = play(job, seen(lease, RUNNING, at(120), bid=D("0.360")))
    resumed = lease_of(job)
    assert (resumed.state, resumed.observed.paused_at, resumed.observed.pause_cause) == (LeaseState.ACTIVE, None, None)
    assert (resumed.bid, resumed.bidding.raises, resumed.observed.running_since) == (D("0.360"), 0, at(120))


def test_a_machine_that_wakes_up_by_itself_works_again() -> None:
    lease = a_paused_lease()
    job = play(a_job(lease), seen(lease, RUNNING, at(60)))
    assert (lease_of(job).state, job.main) == (LeaseState.ACTIVE, lease_of(job))


def test_outbid_and_left_for_another_machine() -> None:
    lease = a_paused_lease()
    job = play(
        a_job(lease, checkpoint=a_checkpoint(lease)),
        e.ReleaseRequested(lease.id, Reason.OUTBID, at(60)),
    )
    assert (job.status, job.reason, job.main) == (JobStatus.RECOVERING, Reason.WAITING_FOR_OFFER, None)
    job = play(job, e.DestroySent(lease.id, True, at(61)), e.LeaseIntended(an_intent("lease-2"), at(62)))
    assert job.main is not None
    assert (job.main.id, job.main.orders.run_epoch, job.status) == ("lease-2", 2, JobStatus.STARTING)
    job = play(job, e.LeaseAbsent(lease.id, at(90)), e.LeaseAbsent(lease.id, at(120)), e.LeaseGone(lease.id, at(120)))
    assert (lease_of(job).state, lease_of(job).reason) == (LeaseState.GONE, Reason.OUTBID)


def test_a_lost_host_that_comes_back() -> None:
    lease = a_lease()
    job = play(a_job(lease), seen(lease, OFFLINE, at(60)), seen(lease, OFFLINE, at(90)))
    assert (job.status, job.reason) == (JobStatus.RECOVERING, Reason.HOST_LOST)
    assert (lease_of(job).observed.offline_since, lease_of(job).observed.running_since) == (at(60), None)
    job = play(job, seen(lease, RUNNING, at(120)))
    assert (job.status, lease_of(job).observed.offline_since, lease_of(job).observed.running_since) == (
        JobStatus.STARTING,
        None,
        at(120),
    )
    job = play(job, heartbeat(lease, at(59)))
    assert play(job, heartbeat(lease, at(59))).status is JobStatus.RUNNING, "its agent says so itself"


def test_a_paused_machine_whose_host_is_lost_stays_paused() -> None:
    lease = a_paused_lease()
    job = play(a_job(lease), seen(lease, OFFLINE, at(60)))
    assert (lease_of(job).state, lease_of(job).observed.offline_since) == (LeaseState.PAUSED, at(60))
    job = play(job, seen(lease, STOPPED, at(90)))
    assert (lease_of(job).state, lease_of(job).observed.offline_since, lease_of(job).observed.paused_at) == (
        LeaseState.PAUSED,
        None,
        START,
    )


def test_a_lost_host_never_seen_again_is_recovered_from_elsewhere() -> None:
    lease = a_lease()
    job = play(
        a_job(lease, checkpoint=a_checkpoint(lease)),
        e.LeaseAbsent(lease.id, at(30)),
        e.LeaseAbsent(lease.id, at(60)),
        e.LeaseGone(lease.id, at(60)),
    )
    assert (job.status, job.main, job.launches) == (JobStatus.RECOVERING, None, 1)
    job = play(job, e.LeaseIntended(an_intent("lease-2"), at(61)))
    assert (job.status, job.run_epoch) == (JobStatus.STARTING, 2)


def test_an_unknown_create_holds_its_slot_until_it_is_adopted() -> None:
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseUncertain("lease-1", "timeout", at(60)))
    assert job.main is not None
    assert job.main.create_unknown
    job = play(job, e.LeaseMissed("lease-1", at(90)), e.LeaseAcquired("lease-1", "77", at(120), adopted=True))
    assert (lease_of(job).state, lease_of(job).instance_id) == (LeaseState.ACTIVE, "77")
    assert not lease_of(job).create_unknown


def test_an_unknown_create_that_never_appeared_is_abandoned() -> None:
    job = play(
        a_job(),
        e.LeaseIntended(an_intent(), at(0)),
        e.LeaseUncertain("lease-1", "timeout", at(60)),
        *(e.LeaseMissed("lease-1", at(120 * n)) for n in (1, 2, 3)),
    )
    assert lease_of(job).observed.lists_since_intent == 3
    job = play(job, e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(360)))
    assert (lease_of(job).state, job.main) == (LeaseState.ABANDONED, None)
    assert (job.status, job.reason) == (JobStatus.PENDING, Reason.WAITING_FOR_OFFER)
    assert lease_of(job).spans == ()


def test_a_create_that_lands_after_it_was_abandoned_is_destroyed() -> None:
    tombstone = evolve_lease(an_intent(), e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(360)))
    job = play(a_job(tombstone), e.InstanceFound("lease-1", "77", at(500)))
    late = lease_of(job)
    assert (late.state, late.instance_id, late.orders.role) == (LeaseState.DESTROY_REQUESTED, "77", Role.LEAVE)
    assert late.spans[0].started_at == START, "it may bill since the create was sent"
    assert job.main is None
    job = play(job, e.DestroySent("lease-1", True, at(501)))
    job = play(
        job, e.LeaseAbsent("lease-1", at(530)), e.LeaseAbsent("lease-1", at(560)), e.LeaseGone("lease-1", at(560))
    )
    assert lease_of(job).is_over


def test_a_create_of_which_nothing_was_read_for_long_may_have_cost_that_time() -> None:
    intent = an_intent()
    doubted = evolve_lease(intent, e.LeaseUncertain("lease-1", "timeout", at(10)))
    watched = evolve_lease(doubted, e.LeaseMissed("lease-1", at(90)))
    assert (watched.billing.unobserved, watched.may_be_billed) == (D(0), False)
    missed = evolve_lease(watched, e.LeaseMissed("lease-1", at(90 + 3600)))
    assert missed.billing.unobserved == intent.burn_upper
    assert not missed.may_be_billed, "it is still held as a start"
    given_up = evolve_lease(missed, e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(4000)))
    assert given_up.may_be_billed
    assert not evolve_lease(given_up, e.InstanceFound("lease-1", "77", at(5000))).billing.unobserved, (
        "its spans have it"
    )


def test_a_machine_that_only_the_bill_shows_bills_no_disk_from_its_intent_on() -> None:
    missed = evolve_lease(an_intent(), e.LeaseMissed("lease-1", at(3600)))
    given_up = evolve_lease(missed, e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(4000)))
    found = evolve_lease(given_up, e.InstanceFound("lease-1", "77", at(90_000), only_billed=True))
    assert found.spans[0].started_at == at(90_000)
    assert found.billing.unobserved == given_up.billing.unobserved, "the most that the bill may say"


def test_a_create_that_shows_up_bills_that_time_in_its_spans() -> None:
    missed = evolve_lease(an_intent(), e.LeaseMissed("lease-1", at(3600)))
    assert missed.billing.unobserved
    assert not evolve_lease(missed, e.LeaseAcquired("lease-1", "77", at(3620))).billing.unobserved


def test_a_gone_instance_that_comes_back_is_destroyed_and_settled_again() -> None:
    gone = a_lease(
        state=LeaseState.GONE, running_since=None, gone_at=at(60), settled_at=at(900), absences=2, destroy_attempts=4
    )
    found = evolve_lease(gone, e.InstanceFound(gone.id, "instance-of-lease-1", at(1000)))
    assert (found.state, found.ending.gone_at, found.billing.settled_at) == (LeaseState.DESTROY_REQUESTED, None, None)
    assert (found.observed.absences, found.ending.attempts) == (0, 0)


def test_a_known_no_frees_the_slot() -> None:
    job = play(
        a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseRefused("lease-1", Reason.REFUSED, "gone", None, at(2))
    )
    assert (lease_of(job).state, lease_of(job).reason, job.main) == (LeaseState.ABANDONED, Reason.REFUSED, None)
    assert lease_of(job).spans == ()


def test_a_no_that_names_a_contract_has_it_destroyed() -> None:
    job = play(
        a_job(), e.LeaseIntended(an_intent(), at(0)), e.LeaseRefused("lease-1", Reason.OUTBID, "too low", "99", at(2))
    )
    orphan = lease_of(job)
    assert (orphan.state, orphan.instance_id, orphan.ending.requested_at) == (
        LeaseState.DESTROY_REQUESTED,
        "99",
        at(2),
    )
    assert job.main is None, "the slot is free again"
    assert (job.status, job.reason) == (JobStatus.PENDING, Reason.WAITING_FOR_OFFER)


def test_a_destroy_is_asked_for_until_it_is_proved() -> None:
    lease = a_lease()
    job = play(
        a_job(lease), e.ReleaseRequested(lease.id, Reason.EXPIRING, at(0)), e.DestroySent(lease.id, False, at(1))
    )
    assert (lease_of(job).state, lease_of(job).ending.attempts) == (LeaseState.DESTROY_REQUESTED, 1)
    job = play(job, e.DestroySent(lease.id, True, at(7)))
    assert (lease_of(job).state, lease_of(job).ending.sent_at) == (LeaseState.DESTROY_SENT, at(7))
    job = play(job, seen(lease_of(job), RUNNING, at(40)))
    assert lease_of(job).state is LeaseState.DESTROY_REQUESTED, "the market shows it still: ask again"
    job = play(job, e.DestroySent(lease.id, True, at(41)))
    assert (lease_of(job).state, lease_of(job).ending.attempts) == (LeaseState.DESTROY_SENT, 3)
    job = play(job, e.LeaseAbsent(lease.id, at(60)), e.LeaseAbsent(lease.id, at(90)), e.LeaseGone(lease.id, at(90)))
    assert (lease_of(job).state, lease_of(job).ending.gone_at) == (LeaseState.GONE, at(90))


def test_asking_twice_for_a_release_changes_nothing() -> None:
    lease = a_lease()
    job = play(a_job(lease), e.ReleaseRequested(lease.id, Reason.MOVING, at(0)))
    assert play(job, e.ReleaseRequested(lease.id, Reason.ORPHAN, at(1))) == job


def test_absences_count_only_when_far_enough_apart_and_in_a_row() -> None:
    lease = a_lease()
    job = play(a_job(lease), e.LeaseAbsent(lease.id, at(0)), e.LeaseAbsent(lease.id, at(0) + ABSENCE_GAP / 2))
    assert lease_of(job).observed.absences == 1
    assert play(job, e.LeaseAbsent(lease.id, at(0) + ABSENCE_GAP)).leases[0].observed.absences == 2
    job = play(job, seen(lease, RUNNING, at(30)))
    assert (lease_of(job).observed.absences, lease_of(job).observed.absent_at) == (0, None)
