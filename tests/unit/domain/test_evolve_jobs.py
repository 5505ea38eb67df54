"""What happens to the job itself: exits, cancelling, parking, checkpoints and the count of its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.domain import events as e
from autopilot.domain.errors import InvalidTransition
from autopilot.domain.evolve import evolve
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.reasons import Reason
from tests.builders import (
    HOUR,
    D,
    a_checkpoint,
    a_job,
    a_lease,
    a_spec,
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


def test_a_finished_command_ends_the_job() -> None:
    lease = a_lease()
    job = play(a_job(lease), e.RunExited(lease.id, 1, 0, at(60)))
    assert (job.status, job.reason, job.exit_code) == (JobStatus.SUCCEEDED, Reason.COMPLETED, 0)
    assert job.finished_at == at(60)
    job = play(job, e.ReleaseRequested(lease.id, Reason.COMPLETED, at(61)), e.DestroySent(lease.id, True, at(62)))
    job = play(job, e.LeaseAbsent(lease.id, at(90)), e.LeaseAbsent(lease.id, at(120)), e.LeaseGone(lease.id, at(120)))
    assert (job.status, job.finished_at) == (JobStatus.SUCCEEDED, at(60)), "tidying up changes nothing for the user"


def test_a_failing_command_is_tried_again_elsewhere_and_at_last_fails_the_job() -> None:
    job = a_job(spec=a_spec(max_attempts=2))
    for attempt, (status, failures) in enumerate([(JobStatus.PENDING, 1), (JobStatus.FAILED, 2)], start=1):
        lease = an_intent(f"lease-{attempt}")
        job = play(job, e.LeaseIntended(lease, at(0)), e.LeaseAcquired(lease.id, str(attempt), at(1)))
        job = play(job, seen(lease_of(job, lease.id), RUNNING, at(30)), e.RunExited(lease.id, attempt, 1, at(60)))
        job = play(job, e.ReleaseRequested(lease.id, Reason.RETRY, at(61)))
        assert (job.status, job.failures, job.exit_code) == (status, failures, 1)
    assert (job.reason, job.finished_at) == (Reason.COMMAND_FAILED, at(60))


def test_a_command_that_no_shell_can_read_has_one_attempt() -> None:
    lease = a_lease()
    unreadable = e.RunExited(lease.id, 1, 2, at(60), is_of_command=False, is_syntax=True)
    job = play(a_job(lease, spec=a_spec(max_attempts=3)), unreadable)
    assert (job.status, job.reason, job.failures) == (JobStatus.FAILED, Reason.COMMAND_FAILED, 1)


def test_another_run_on_the_same_machine_has_an_epoch_of_its_own_and_counts_from_the_checkpoint() -> None:
    lease = a_lease(can_run_again=True)
    job = play(
        a_job(lease, work_done=timedelta(hours=3), progress=D("0.3")),
        e.CheckpointVerified(a_checkpoint(lease, 4, work_done=timedelta(hours=2)), at(50)),
        e.RunExited(lease.id, 1, 1, at(60)),
        e.RunOrdered(lease.id, Reason.RETRY, at(60)),
    )
    held = lease_of(job)
    assert (job.run_epoch, held.orders.run_epoch, held.orders.role) == (2, 2, Role.RUN)
    assert (job.failures, held.agent.failures, held.agent.exit_code) == (1, 1, None)
    assert (job.work_done, job.progress) == (timedelta(hours=2), None)
    assert (job.status, job.reason) == (JobStatus.STARTING, Reason.RETRY)
    assert (job.launches, held.agent.preparing_since) == (1, at(60))

    assert play(job, e.RunExited(lease.id, 1, 0, at(70))) == job, "the old exit is still in the mailbox"
    job = play(job, seen(held, RUNNING, at(75)), heartbeat(held, at(80), seq=90), seen(held, RUNNING, at(90)))
    assert (job.status, job.reason) == (JobStatus.RUNNING, Reason.WORKING)
    job = play(job, seen(lease_of(job), RUNNING, at(105)))
    assert job.work_done == timedelta(hours=2, seconds=30), "counted from the look before its agent spoke"
    job = play(job, e.RunExited(lease.id, 2, 1, at(110), is_of_host=True))
    assert (job.failures, lease_of(job).agent.failures, lease_of(job).agent.failed_by_host) == (2, 2, True)


def test_without_a_checkpoint_another_run_counts_from_nothing() -> None:
    lease = a_lease()
    job = play(a_job(lease, work_done=HOUR), e.RunExited(lease.id, 1, 1, at(60)))
    assert job.work_done == HOUR
    assert play(job, e.RunOrdered(lease.id, Reason.RETRY, at(60))).work_done == timedelta(0)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_an_exit_of_an_older_run_is_ignored(exit_code: int) -> None:
    job = a_job(a_lease("lease-2", run_epoch=2), run_epoch=2)
    assert play(job, e.RunExited("lease-2", 1, exit_code, at(60))) == job


def test_an_exit_claimed_by_a_lease_that_was_not_given_this_run_is_ignored() -> None:
    job = a_job(a_lease(run_epoch=2), a_lease("lease-2", run_epoch=1, state=LeaseState.DESTROY_REQUESTED), run_epoch=2)
    assert play(job, e.RunExited("lease-2", 2, 0, at(60))) == job


def test_a_failing_exit_is_counted_once_however_often_it_is_read() -> None:
    lease = a_lease()
    once = play(a_job(lease), e.RunExited(lease.id, 1, 1, at(60)))
    assert play(once, e.RunExited(lease.id, 1, 1, at(90))).failures == once.failures == 1


def test_an_exit_does_not_end_a_cancelling_job_in_success() -> None:
    lease = a_lease()
    job = play(a_job(lease), e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, at(50)))
    job = play(job, e.RunExited(lease.id, 1, 0, at(60)))
    assert (job.status, job.exit_code) == (JobStatus.CANCELLING, 0)


def test_cancel_while_the_create_is_open() -> None:
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)))
    job = play(job, e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, at(5)))
    assert job.status is JobStatus.CANCELLING, "not over before the create is resolved"
    abandoned = play(job, e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(400)))
    assert (abandoned.status, abandoned.finished_at) == (JobStatus.CANCELLED, at(400))
    landed = play(
        job, e.LeaseAcquired("lease-1", "77", at(10)), e.ReleaseRequested("lease-1", Reason.USER_CANCELLED, at(11))
    )
    assert landed.status is JobStatus.CANCELLING
    landed = play(landed, e.DestroySent("lease-1", True, at(12)))
    landed = play(landed, *(e.LeaseAbsent("lease-1", at(when)) for when in (40, 70)), e.LeaseGone("lease-1", at(70)))
    assert (landed.status, landed.reason) == (JobStatus.CANCELLED, Reason.USER_CANCELLED)


def test_an_intent_released_before_it_is_resolved_is_destroyed_as_soon_as_it_lands() -> None:
    job = play(a_job(), e.LeaseIntended(an_intent(), at(0)), e.ReleaseRequested("lease-1", Reason.EXPIRING, at(5)))
    assert (lease_of(job).state, lease_of(job).orders.role) == (LeaseState.INTENT, Role.LEAVE)
    job = play(job, e.LeaseAcquired("lease-1", "77", at(10)))
    assert (lease_of(job).state, lease_of(job).ending.requested_at) == (LeaseState.DESTROY_REQUESTED, at(10))
    assert job.main is None


def test_cancelling_a_job_without_machines_is_over_at_once() -> None:
    job = play(a_job(), e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, at(5)))
    assert (job.status, job.finished_at) == (JobStatus.CANCELLED, at(5))


def test_parked_for_want_of_money_and_resumed_by_the_user() -> None:
    lease = a_lease()
    checkpoint = a_checkpoint(lease, work_done=3 * HOUR)
    job = play(
        a_job(lease, work_done=4 * HOUR),
        e.StopOrdered(lease.id, Reason.BUDGET_EXHAUSTED, at(0)),
        e.PermitRenewed(lease.id, 5, at(0)),
        e.PermitRenewed(lease.id, 6, at(60)),
        heartbeat(lease, at(90), "saving", saved=True, last_checkpoint_number=0),
        e.CheckpointVerified(checkpoint, at(90)),
    )
    assert (lease_of(job).orders.role, lease_of(job).orders.stop_seq, lease_of(job).agent.has_saved) == (
        Role.SAVE_AND_STOP,
        5,
        True,
    )
    job = play(
        job,
        e.ReleaseRequested(lease.id, Reason.BUDGET_EXHAUSTED, at(91)),
        e.StatusSet(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED, at(91)),
    )
    assert (job.status, job.work_done, job.finished_at) == (JobStatus.PARKED, 3 * HOUR, None)
    job = play(job, e.DestroySent(lease.id, True, at(92)))
    assert job.status is JobStatus.PARKED, "events of its leases leave a parked job parked"
    job = play(job, e.StatusSet(JobStatus.PENDING, Reason.SUBMITTED, at(1000)))
    assert (job.status, job.reason) == (JobStatus.RECOVERING, Reason.WAITING_FOR_OFFER)


def test_a_checkpoint_replaces_only_an_older_one() -> None:
    lease = a_lease(run_epoch=2)
    newest = a_checkpoint(lease, number=3)
    job = play(a_job(lease), e.CheckpointVerified(newest, at(0)))
    for older in (a_checkpoint(lease, number=2), a_checkpoint(lease, number=9, run_epoch=1), newest):
        assert play(job, e.CheckpointVerified(replace(older, step=7), at(1))).checkpoint == newest
    newer = a_checkpoint(lease, number=0, run_epoch=3)
    assert play(job, e.CheckpointVerified(newer, at(1))).checkpoint == newer


def test_work_is_counted_while_the_command_runs_and_falls_back_when_the_run_is_lost() -> None:
    lease = a_lease(agent_state="restoring")
    job = play(a_job(lease), seen(lease, RUNNING, at(60)))
    assert job.work_done == timedelta(0), "restoring is no work"
    job = play(job, heartbeat(lease, at(60)), seen(lease, RUNNING, at(90)), seen(lease, RUNNING, at(150)))
    assert job.work_done == timedelta(seconds=90)
    saved = a_checkpoint(lease, work_done=job.work_done)
    job = play(job, e.CheckpointVerified(saved, at(150)), seen(lease, RUNNING, at(210)))
    assert job.work_done == timedelta(seconds=150)
    job = play(job, heartbeat(lease, at(210), progress=D("0.4"), step=40))
    assert (job.progress, job.step) == (D("0.4"), 40)
    job = play(job, seen(lease, STOPPED, at(240)))
    assert (job.work_done, job.progress) == (timedelta(seconds=90), None)


@pytest.mark.parametrize(
    "loss",
    [
        lambda lease: seen(lease, STOPPED, at(60)),
        lambda lease: seen(lease, OFFLINE, at(60)),
        lambda lease: e.LeaseGone(lease.id, at(60)),
        lambda lease: e.ReleaseRequested(lease.id, Reason.RETRY, at(60)),
    ],
    ids=["outbid", "offline", "gone", "released"],
)
def test_without_a_checkpoint_a_loss_takes_all_work(loss: Callable[[Lease], e.Event]) -> None:
    lease = a_lease()
    job = play(a_job(lease, work_done=HOUR), loss(lease))
    assert job.work_done == timedelta(0)


def test_a_waiting_home_counts_no_work_and_claims_no_progress() -> None:
    main, new = a_lease(), a_lease("lease-2", slot="next", role=Role.WAIT, run_epoch=0)
    job = a_job(main, new)
    played = play(job, seen(new, RUNNING, at(60)), heartbeat(new, at(60), step=999, progress=D(1)))
    assert (played.work_done, played.step, played.progress) == (job.work_done, job.step, job.progress)


def test_remaining_work_goes_by_the_claim_and_else_by_our_own_count() -> None:
    job = a_job(spec=a_spec(work_estimate=10 * HOUR), work_done=4 * HOUR)
    assert job.remaining_work == 6 * HOUR
    assert replace(job, progress=D("0.75")).remaining_work == 2.5 * HOUR
    assert replace(job, progress=D("1.5")).remaining_work == timedelta(0)
    assert replace(job, progress=D(0)).remaining_work == 6 * HOUR
    assert replace(job, work_done=11 * HOUR).remaining_work == timedelta(0)
    assert a_job(spec=a_spec(work_estimate=None)).remaining_work is None


@pytest.mark.parametrize(
    "event",
    [
        e.LeaseAcquired("lease-1", "78", at(0)),
        e.LeaseRefused("lease-1", Reason.REFUSED, "", None, at(0)),
        e.LeaseAbandoned("lease-1", Reason.NEVER_APPEARED, at(0)),
    ],
)
def test_an_outcome_that_does_not_fit_the_state_is_a_defect(event: e.Event) -> None:
    job = a_job(a_lease(state=LeaseState.DESTROY_REQUESTED, running_since=None))
    with pytest.raises(InvalidTransition):
        evolve(job, event)


def test_a_job_event_does_not_concern_a_lease_alone() -> None:
    with pytest.raises(TypeError):
        evolve_lease(a_lease(), e.StatusSet(JobStatus.PARKED, Reason.BUDGET_EXHAUSTED, at(0)))


def test_evolve_leaves_its_input_alone() -> None:
    lease = a_lease()
    job = a_job(lease)
    evolve(job, e.LeaseObserved(lease.id, an_instance(lease, status=STOPPED), at(60)))
    assert job == a_job(a_lease())
