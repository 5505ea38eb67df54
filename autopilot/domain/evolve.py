"""``evolve(job, event) -> job``: the only way a job or a lease changes.

``evolve_lease`` applies what concerns one lease alone; then ``evolve`` draws the consequences for the job and
updates its status.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.agent_state import AT_WORK, AgentState
from autopilot.domain.arrival import Arrival
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.handover import before_run, end_use, inherit, speaks_of_machine, with_first_use
from autopilot.domain.job import Checkpoint, Job, JobSpec, JobStatus
from autopilot.domain.lease import Lease, LeaseState, PaceAnchor, Role, Slot, cost_by_day
from autopilot.domain.memory_kill import with_memory_kill
from autopilot.domain.money import BYTES_PER_GB, ZERO
from autopilot.domain.pace import learn_pace, note_slow_end
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import FAILED_BEFORE, INVALID, FailedStart, StartCause, trim_words, with_start
from autopilot.domain.unfit import count_left, forget_met, lacks_of

HEARTBEAT_LASTS = timedelta(minutes=3)
"""Without a new heartbeat for so long, a machine that the market calls running is not taken to work."""

_IN_VAIN = (Reason.STUCK_LOADING, Reason.AGENT_SILENT, Reason.IMAGE_UNUSABLE, Reason.PULL_LIMIT)
"""Reasons for which a machine is released on which the command may never have run."""


def evolve(job: Job, event: e.Event) -> Job:
    """Apply one event. Raises ``InvalidTransition`` for one that the lifecycle does not allow."""
    match event:
        case (
            e.LeaseIntended()
            | e.LeasePromoted()
            | e.RunOrdered()
            | e.LeaseHandedOver()
            | e.LeaseInherited()
            | e.LeaseRegained()
        ):
            job = _change_leases(job, event)
        case e.EpochRaised(run_epoch):
            job = replace(job, run_epoch=max(job.run_epoch, run_epoch))
        case e.CheckpointVerified(checkpoint):
            job = _take_checkpoint(job, checkpoint)
        case e.CheckpointChosen(checkpoint):
            job = replace(job, checkpoint=checkpoint)
        case e.RunExited():
            job = _exit(job, event)
        case e.BootFailed():
            job = _note_fault(job, event)
        case e.NoticeChanged() | e.RunRestored():
            pass  # said, for people; what follows of it comes as events of its own
        case (
            e.ImageLoginRefused()
            | e.StatusSet()
            | e.PredecessorsEnded()
            | e.SpecChanged()
            | e.TaskRetried()
            | e.TaskExcused()
        ):
            job = _change_course(job, event)
        case _:
            job = _change_lease(job, _lease(job, event.lease_id), event)
    return _restate(job, event)


def _change_leases(
    job: Job,
    event: e.LeaseIntended | e.LeasePromoted | e.RunOrdered | e.LeaseHandedOver | e.LeaseInherited | e.LeaseRegained,
) -> Job:
    """Which leases the job has, and which of them runs it."""
    match event:
        case e.LeaseIntended(lease):
            job = replace(job, leases=(*job.leases, lease), launches=job.launches + 1)
            return _promote(job, lease) if lease.slot is Slot.MAIN else job
        case e.LeasePromoted(lease_id):
            return _promote(job, _lease(job, lease_id))
        case e.RunOrdered(lease_id):
            return _run_again(job, _lease(job, lease_id), event.at)
        case e.LeaseHandedOver(lease_id):
            return replace(job, leases=tuple(lease for lease in job.leases if lease.id != lease_id))
        case e.LeaseInherited(lease):
            return inherit(job, lease, event.at)
        case e.LeaseRegained(lease):
            return replace(job, leases=(*job.leases, lease), launches=job.launches + 1)


def _change_course(
    job: Job,
    event: e.ImageLoginRefused | e.StatusSet | e.PredecessorsEnded | e.SpecChanged | e.TaskRetried | e.TaskExcused,
) -> Job:
    """What the job is to do: its status, set from outside, or its specification."""
    match event:
        case e.ImageLoginRefused(at=at):
            if not job.status.wants_capacity:
                return job
            return replace(job, status=JobStatus.PARKED, reason=Reason.IMAGE_LOGIN_REFUSED, parked_at=at)
        case e.StatusSet(status, reason, at, _):
            parked_at = at if status is JobStatus.PARKED else None
            finished_at = at if status.is_final else None
            return replace(job, status=status, reason=reason, finished_at=finished_at, parked_at=parked_at)
        case e.PredecessorsEnded(ended_at):
            return replace(job, predecessors_ended_at=ended_at, spec=_due_from(job.spec, ended_at))
        case e.SpecChanged(spec):
            return replace(job, spec=spec)
        case e.TaskRetried():
            return replace(_restart(job, event.at), failures=0)
        case e.TaskExcused():
            job = _restart(job, event.at)
            return replace(job, failures=max(job.failures - 1, 0), excused=job.excused + 1)


def _change_lease(job: Job, before: Lease, event: e.Event) -> Job:
    """One that concerns a lease alone, and its consequences for the job."""
    after = evolve_lease(before, event)
    job = _count_findings(job, before, after, event)
    job = _judge_launches(_count_work(job, before, after, event), before, event)
    after = _forget_anchor(before, after, event)
    if isinstance(event, e.HeartbeatSeen):
        job, after = learn_pace(job, before, after, event)
    job = note_slow_end(job, before, after)
    return _with(job, with_first_use(job, before, after, event))


def _take_checkpoint(job: Job, checkpoint: Checkpoint) -> Job:
    """The newest one counts; its writer has uploaded at least its size."""
    if job.checkpoint is None or checkpoint.order > job.checkpoint.order:
        job = replace(job, checkpoint=checkpoint)
    writer = next((lease for lease in job.leases if lease.id == checkpoint.lease_id), None)
    if writer is None or checkpoint.size_bytes <= writer.traffic.upload_gb * BYTES_PER_GB:
        return job
    uploaded = Decimal(checkpoint.size_bytes) / BYTES_PER_GB
    return _with(job, replace(writer, traffic=replace(writer.traffic, upload_gb=uploaded)))


def _due_from(spec: JobSpec, ended_at: datetime) -> JobSpec:
    """With the deadline that counts from when the predecessors ended."""
    if spec.due_within is None:
        return spec
    return replace(spec, deadline=ended_at + spec.due_within, due_within=None)


def _promote(job: Job, lease: Lease) -> Job:
    epoch = job.run_epoch + 1
    return _with(
        replace(job, run_epoch=epoch),
        replace(lease, slot=Slot.MAIN, orders=replace(lease.orders, role=Role.RUN, run_epoch=epoch)),
    )


def _run_again(job: Job, lease: Lease, at: datetime) -> Job:
    """What the run before did beyond its checkpoint is not counted: the files are there, what they hold is not known.

    Until its agent speaks of the new run it prepares for it.
    """
    lease = replace(lease, agent=before_run(lease.agent, at), anchor=PaceAnchor())
    return _promote(_fall_back(job), end_use(lease, None))


def _restart(job: Job, at: datetime) -> Job:
    """A task that was over, once there is a place for it."""
    return replace(
        _fall_back(job),
        status=JobStatus.PARKED,
        reason=Reason.RETRIED,
        finished_at=None,
        parked_at=at,
        fruitless=0,
        failed_starts=(),
        exit_code=None,
    )


def _fall_back(job: Job) -> Job:
    """To the work that the newest checkpoint holds."""
    return replace(job, work_done=job.checkpoint.work_done if job.checkpoint else timedelta(0), progress=None)


def _exit(job: Job, event: e.RunExited) -> Job:
    lease = _lease(job, event.lease_id)
    if not event.run_epoch == lease.orders.run_epoch == job.run_epoch or lease.agent.exit_code is not None:
        return job
    is_blamed = (
        event.exit_code != 0 and not event.is_syntax and not event.memory and speaks_of_machine(job, lease, event.at)
    )
    agent = replace(
        lease.agent,
        exit_code=event.exit_code,
        failed_by_host=event.is_of_host or is_blamed or event.memory is not None,
        failures=lease.agent.failures + 1 if event.exit_code else 0,
        is_blamed=is_blamed,
    )
    job = _with(replace(job, exit_code=event.exit_code), end_use(replace(lease, agent=agent), event.at))
    if job.status.is_final or job.status in (JobStatus.CANCELLING, JobStatus.PARKED):
        return job
    if event.exit_code == 0:
        return replace(job, status=JobStatus.SUCCEEDED, reason=Reason.COMPLETED, finished_at=event.at)
    if is_blamed:
        return replace(job, excused=job.excused + 1)
    job = replace(job, failures=job.failures + 1)
    if event.memory is not None:
        job = with_memory_kill(job, lease, *event.memory, event.at)
    if job.failures >= job.spec.max_attempts or event.is_syntax:
        reason = Reason.COMMAND_FAILED if event.memory is None else Reason.OUT_OF_MEMORY
        return replace(job, status=JobStatus.FAILED, reason=reason, finished_at=event.at)
    return job


def _count_work(job: Job, before: Lease, after: Lease, event: e.Event) -> Job:
    """Count useful work while the command runs; fall back to the checkpoint when the run is lost."""
    if before.slot is not Slot.MAIN or before.orders.role not in (Role.RUN, Role.SAVE_AND_STOP):
        return job
    was_at_work = before.is_wanted and before.observed.running_since is not None
    if was_at_work and (not after.is_wanted or after.observed.running_since is None):
        if not job.status.wants_capacity and job.status is not JobStatus.STOPPING:
            return job
        return _fall_back(job)
    if (
        isinstance(event, e.LeaseObserved)
        and was_at_work
        and before.agent.state is AgentState.RUNNING
        and before.observed.seen_at
    ):
        if _is_silent(before, event):
            return job
        return replace(job, work_done=job.work_done + max(event.at - before.observed.seen_at, timedelta(0)))
    if isinstance(event, e.HeartbeatSeen) and after.orders.run_epoch == job.run_epoch:
        step = job.step if event.step is None else event.step
        return replace(job, step=step, progress=event.progress)
    return job


def _is_silent(lease: Lease, event: e.LeaseObserved) -> bool:
    """The market shows it running, but whether it is at work is unknown."""
    return lease.agent.seen_at is None or event.at - lease.agent.seen_at > HEARTBEAT_LASTS


def _forget_anchor(before: Lease, after: Lease, event: e.Event) -> Lease:
    """After time that was not counted as work, progress is measured again: it may have continued meanwhile."""
    if isinstance(event, e.LeaseObserved) and before.agent.state is AgentState.RUNNING and _is_silent(before, event):
        return replace(after, anchor=replace(after.anchor, work=None))
    return after


def _count_findings(job: Job, before: Lease, after: Lease, event: e.Event) -> Job:
    """For what machines in a row were left, by their check on arrival: so that a check that errs does not go on."""
    match event:
        case e.ReleaseRequested(_, Reason.HOST_UNFIT, _) if before.is_wanted:
            return replace(job, left_for=count_left(job.left_for, lacks_of(job, before)))
        case e.HeartbeatSeen() if job.left_for and _arrival(before) is None and _arrival(after) is not None:
            return replace(job, left_for=forget_met(job.left_for, lacks_of(job, after)))
        case _:
            return job


def _arrival(lease: Lease) -> Arrival | None:
    return lease.agent.readings.arrival if lease.agent.readings else None


def _judge_launches(job: Job, before: Lease, event: e.Event) -> Job:
    """Note machines in a row that came to nothing, so that a job that cannot start does not rent for ever."""
    match event:
        case e.HeartbeatSeen(_, _, _, AgentState.RUNNING):
            return replace(job, fruitless=0, failed_starts=())
        case e.ReleaseRequested(_, Reason.FAILED_BEFORE, at) if before.is_wanted:
            # It says nothing new, of the image in particular: what counts is its cost.
            return _end_start(job, before, at, FailedStart(before.id, _host_of(before), FAILED_BEFORE, "", at))
        case e.ReleaseRequested(_, reason, at) if reason in _IN_VAIN and before.is_wanted:
            if before.agent.state in AT_WORK:
                return job
            known = next((each for each in job.failed_starts if each.lease_id == before.id), None)
            start = known or FailedStart(before.id, _host_of(before), "", "", at)
            return _end_start(replace(job, fruitless=job.fruitless + 1), before, at, start)
        case e.LeaseRefused(_, Reason.INVALID, message, _, at):
            start = FailedStart(before.id, _host_of(before), INVALID, trim_words(message), at, is_over=True)
            return replace(job, fruitless=job.fruitless + 1, failed_starts=with_start(job.failed_starts, start))
        case _:
            return job


def _end_start(job: Job, lease: Lease, at: datetime, start: FailedStart) -> Job:
    cost = sum(cost_by_day(lease, at).values(), ZERO)
    return replace(job, failed_starts=with_start(job.failed_starts, replace(start, at=at, is_over=True, cost=cost)))


def _note_fault(job: Job, event: e.BootFailed) -> Job:
    lease = _lease(job, event.lease_id)
    if lease.agent.boot > 0 or not lease.is_wanted:
        return job  # its agent has spoken: the image starts
    start = FailedStart(lease.id, _host_of(lease), event.fault, trim_words(event.message), event.at)
    return replace(job, failed_starts=with_start(job.failed_starts, start))


def _host_of(lease: Lease) -> str:
    """Where a pool does not name its hosts, every machine of it is taken for another one's."""
    return "/".join((lease.provider, lease.machine_id, lease.host_id or lease.id))


def _restate(job: Job, event: e.Event) -> Job:
    """The job's status as its leases imply it; final, stopping, parked and cancelling states are set by events only.

    Those of an array as well, which has none: its tasks imply them.
    """
    if job.is_array:
        return job
    if job.status is JobStatus.CANCELLING and all(lease.is_over for lease in job.leases):
        return replace(job, status=JobStatus.CANCELLED, finished_at=event.at)
    if not job.status.wants_capacity:
        return job
    status, reason = _status_of_leases(job)
    return job if (status, reason) == (job.status, job.reason) else replace(job, status=status, reason=reason)


def _status_of_leases(job: Job) -> tuple[JobStatus, Reason]:
    main = job.main
    if main is None and job.waits_for_jobs:
        return JobStatus.PENDING, Reason.WAITING_FOR_JOBS
    if main is None:
        return _status_without_machine(job)
    if main.state is LeaseState.PAUSED:
        return JobStatus.PAUSED, main.observed.pause_cause or Reason.UNKNOWN
    if main.observed.offline_since is not None:
        return JobStatus.RECOVERING, Reason.HOST_LOST
    if job.next is not None:
        return JobStatus.MIGRATING, Reason.MOVING
    if main.state is LeaseState.INTENT:
        return JobStatus.STARTING, Reason.LAUNCHING
    if main.observed.running_since is None or main.agent.state not in AT_WORK:
        return JobStatus.STARTING, Reason.RETRY if main.agent.failures and not main.is_shared else Reason.PULLING
    return JobStatus.RUNNING, Reason.STALLED if main.agent.stalled_since else Reason.WORKING


def _status_without_machine(job: Job) -> tuple[JobStatus, Reason]:
    newest = job.failed_starts[-1] if job.failed_starts else None
    is_limited = newest is not None and newest.cause is StartCause.LIMIT
    reason = Reason.PULL_LIMIT if is_limited else Reason.WAITING_FOR_OFFER
    ran_before = job.checkpoint is not None or job.step > 0
    if job.next is not None or ran_before:
        return JobStatus.RECOVERING, reason
    return JobStatus.PENDING, Reason.SUBMITTED if job.launches == 0 else reason


def _lease(job: Job, lease_id: str) -> Lease:
    return next(lease for lease in job.leases if lease.id == lease_id)


def _with(job: Job, lease: Lease) -> Job:
    return replace(job, leases=tuple(lease if old.id == lease.id else old for old in job.leases))
