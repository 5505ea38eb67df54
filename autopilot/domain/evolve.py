"""``evolve(job, event) -> job``: the only way a job or a lease changes.

Two layers: ``evolve_lease`` applies what concerns one lease alone (orphans without a job use it directly), then
``evolve`` draws the consequences for the job and states its status anew.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Job, JobStatus, pace_key
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.money import BYTES_PER_GB, ZERO
from autopilot.domain.offer import CapacityType
from autopilot.domain.reasons import Reason
from autopilot.domain.time import utc_day

ABSENCE_GAP = timedelta(seconds=20)
"""Two lists closer together than this are one piece of evidence that an instance is gone."""

HEARTBEAT_LASTS = timedelta(minutes=3)
"""Without a new heartbeat for so long, a machine that the market calls running is not taken to work."""

UNSEEN_LASTS = timedelta(seconds=90)
"""What a machine did between two sights further apart than this is not known."""

PACE_NEEDS = timedelta(minutes=5)
"""Progress over less work than this says nothing about pace."""
PACE_UNIT = Decimal("0.000001")

FASTEST_LINK_BYTES_PER_S = 1_250_000_000
"""An agent that claims to have sent more than this is not believed in full."""

AT_WORK = ("running", "saving", "finished")
"""What an agent reports once the user's command has been started."""

PREPARING = ("waiting", "restoring", "setting_up")
"""What it reports before that."""


def evolve(job: Job, event: e.Event) -> Job:
    """Apply one event. Raises ``InvalidTransition`` for one that the lifecycle does not allow."""
    match event:
        case e.LeaseIntended(lease):
            job = replace(job, leases=(*job.leases, lease), launches=job.launches + 1)
            if lease.slot is Slot.MAIN:
                job = _promoted(job, lease)
        case e.LeasePromoted(lease_id):
            job = _promoted(job, _lease(job, lease_id))
        case e.CheckpointVerified(checkpoint):
            if job.checkpoint is None or checkpoint.order > job.checkpoint.order:
                job = replace(job, checkpoint=checkpoint)
            writer = next((lease for lease in job.leases if lease.id == checkpoint.lease_id), None)
            if writer is not None and checkpoint.size_bytes > writer.upload_gb * BYTES_PER_GB:
                job = _with(job, replace(writer, upload_gb=Decimal(checkpoint.size_bytes) / BYTES_PER_GB))
        case e.RunExited():
            job = _exited(job, event)
        case e.StatusSet(status, reason, at):
            parked_at = at if status is JobStatus.PARKED else None
            finished_at = at if status.is_final else None
            job = replace(job, status=status, reason=reason, finished_at=finished_at, parked_at=parked_at)
        case _:
            before = _lease(job, event.lease_id)
            after = evolve_lease(before, event)
            job = _launches_judged(_work_counted(job, before, after, event), before, event)
            job, after = _pace_learned(job, before, after, event)
            job = _with(job, after)
    return _restate(job, event)


def evolve_lease(lease: Lease, event: e.Event) -> Lease:
    before = lease
    match event:
        case e.LeaseAcquired(_, instance_id, at):
            lease = lease.moved(
                LeaseState.ACTIVE,
                instance_id=instance_id,
                acquired_at=at,
                create_unknown=False,
                last_seen_at=at,
                absent_at=None,
            ).billed_as(InstanceStatus.PROVISIONING, lease.bid, lease.storage_rate, lease.intended_at)
            lease = _billed_unseen(lease, before.observed_at, at)
            if lease.role is Role.LEAVE:
                return lease.moved(LeaseState.DESTROY_REQUESTED, destroy_requested_at=at)
            return lease
        case e.LeaseRefused(_, reason, _, None, _):
            return lease.moved(LeaseState.ABANDONED, reason=reason, create_unknown=False)
        case e.LeaseRefused(_, reason, _, instance_id, at):
            lease = lease.billed_as(InstanceStatus.STOPPED, lease.bid, lease.storage_rate, lease.intended_at)
            return lease.moved(
                LeaseState.DESTROY_REQUESTED,
                reason=reason,
                instance_id=instance_id,
                acquired_at=at,
                create_unknown=False,
                destroy_requested_at=at,
            )
        case e.LeaseUncertain():
            return replace(lease, create_unknown=True)
        case e.LeaseMissed(_, at):
            lists = lease.lists_since_intent + 1
            return replace(lease, create_unknown=True, lists_since_intent=lists, absent_at=at)
        case e.LeaseAbandoned(_, reason, _):
            return lease.moved(LeaseState.ABANDONED, reason=reason)
        case e.LeaseObserved(_, instance, at, out_of_credit):
            return _observed(lease, instance, at, out_of_credit)
        case e.LeaseAbsent(_, at):
            if lease.absent_at is not None and at - lease.absent_at < ABSENCE_GAP:
                return lease
            lease = _billed_unseen(lease, lease.observed_at, at)
            return replace(lease, absences=lease.absences + 1, absent_at=at)
        case e.LeaseGone(_, at, taken_over):
            # It may have gone at any time since it was last seen; the bill will tell.
            end = lease.absent_at or at
            reason = lease.reason if lease.destroy_requested_at else Reason.VANISHED
            reason = Reason.TAKEN_OVER if taken_over else reason
            return lease.unbilled(end).moved(LeaseState.GONE, gone_at=at, reason=reason)
        case e.BidIntended(_, bid, at):
            rungs = lease.rebids + 1 if bid > lease.bid else lease.rebids
            highest = max(bid, lease.bid, lease.highest_bid or bid)
            lease = replace(lease, rebids=rungs, bid_changed_at=at, highest_bid=highest)
            return _with_bid(lease, max(bid, lease.bid), at)
        case e.BidChanged(_, bid, at):
            return _with_bid(replace(lease, bid_changed_at=at), bid, at)
        case e.BidRefused(_, bid, at):
            return _with_bid(replace(lease, rebids=max(lease.rebids - 1, 0)), bid, at)
        case e.ReleaseRequested(_, reason, at):
            if not lease.is_wanted:
                return lease
            if lease.instance_id is None:
                # Not yet created, or not known to be: it stays an intent until that is resolved.
                return lease.moved(LeaseState.INTENT, role=Role.LEAVE, reason=reason)
            return lease.moved(LeaseState.DESTROY_REQUESTED, role=Role.LEAVE, reason=reason, destroy_requested_at=at)
        case e.InstanceFound(_, instance_id, at):
            lease = lease.moved(
                LeaseState.DESTROY_REQUESTED,
                instance_id=instance_id,
                acquired_at=lease.acquired_at or at,
                destroy_requested_at=at,
                destroy_attempts=0,
                destroy_sent_at=None,
                gone_at=None,
                settled_at=None,
                absences=0,
                role=Role.LEAVE,
                reason=Reason.VANISHED if lease.reason is Reason.TAKEN_OVER else lease.reason,
            )
            start = lease.intended_at if not lease.spans else at
            return lease.billed_as(InstanceStatus.STOPPED, lease.bid, lease.storage_rate, start)
        case e.DestroySent(_, accepted, at):
            lease = replace(lease, destroy_attempts=lease.destroy_attempts + 1)
            # The bill is taken to end here; if the market still shows the instance later, a new span opens.
            return lease.unbilled(at).moved(LeaseState.DESTROY_SENT, destroy_sent_at=at) if accepted else lease
        case e.StopOrdered(_, _, at):
            return replace(lease, role=Role.SAVE_AND_STOP, stop_ordered_at=at)
        case e.HeartbeatSeen():
            if (event.boot, event.seq) <= (lease.agent_boot, lease.agent_seq):
                return lease
            return replace(
                _metered(lease, event),
                agent_boot=event.boot,
                agent_seq=event.seq,
                agent_state=event.agent_state,
                agent_seen_at=event.at,
                preparing_since=_preparing_since(lease, event),
                agent_saved=event.saved,
                last_checkpoint_number=event.last_checkpoint_number,
                log_count=event.log_count,
            )
        case e.PermitRenewed(_, seq, at, ttl_s):
            told_to_stop = lease.role is Role.SAVE_AND_STOP and lease.stop_seq == 0
            stop_seq = seq if told_to_stop else lease.stop_seq
            return replace(lease, permit_seq=seq, permit_renewed_at=at, permit_ttl_s=ttl_s, stop_seq=stop_seq)
        case e.LeaseSettled(_, at):
            return replace(lease, settled_at=at)
        case _:
            raise TypeError(f"{type(event).__name__} does not concern a lease alone")


def _preparing_since(lease: Lease, event: e.HeartbeatSeen) -> datetime | None:
    if event.agent_state not in PREPARING:
        return None
    return lease.preparing_since if event.agent_state == lease.agent_state and lease.preparing_since else event.at


def _billed_unseen(lease: Lease, since: datetime, at: datetime) -> Lease:
    """Nobody saw it for long: until the bill tells, it is taken to have computed all the time at its highest rate."""
    return _billed_at_least(lease, since, lease.bid, lease.storage_rate) if at - since > UNSEEN_LASTS else lease


def _billed_at_least(lease: Lease, since: datetime, rate: Decimal, storage_rate: Decimal) -> Lease:
    """From ``since`` on, as far as its open span goes back, it bills no less than this ($/h)."""
    if not lease.spans or lease.spans[-1].ended_at is not None:
        return lease
    last = lease.spans[-1]
    if rate <= last.billed_rate and storage_rate <= last.storage_rate:
        return lease
    since = max(since, last.started_at)
    dearer = replace(
        last,
        billed_rate=max(rate, last.billed_rate),
        storage_rate=max(storage_rate, last.storage_rate),
        started_at=since,
    )
    return replace(lease, spans=(*lease.spans[:-1], replace(last, ended_at=since), dearer))


def _metered(lease: Lease, event: e.HeartbeatSeen) -> Lease:
    """With what the agent has sent since its last word, on the day on which it was heard.

    Its counter starts anew at each boot; what the one before had sent after its last word is taken to be a checkpoint.
    A counter that goes back within a boot, or that no link could have filled, is not believed.
    """
    is_new_boot = event.boot != lease.agent_boot
    before = 0 if is_new_boot else lease.agent_sent_bytes
    elapsed = event.at - (lease.agent_seen_at or lease.intended_at)
    more = max(min(event.sent_bytes - before, int(elapsed.total_seconds() * FASTEST_LINK_BYTES_PER_S)), 0)
    if is_new_boot and lease.agent_boot and not lease.agent_saved:
        more += int(lease.upload_gb * BYTES_PER_GB)
    counter = max(event.sent_bytes, before)
    if not more:
        return replace(lease, agent_sent_bytes=counter)
    day = utc_day(event.at).isoformat()
    by_day = dict(lease.sent_bytes)
    counted = by_day.get(day, 0)
    assert isinstance(counted, int), "bytes are whole"
    by_day[day] = counted + more
    return replace(lease, agent_sent_bytes=counter, sent_bytes=tuple(by_day.items()))


def _observed(lease: Lease, instance: Instance, at: datetime, out_of_credit: bool) -> Lease:
    status, previous = instance.status, lease.status
    billed_from = at
    if lease.state is LeaseState.DESTROY_SENT and lease.spans:
        # The market took the destroy and did not carry it out: it never stopped billing.
        billed_from = lease.spans[-1].ended_at or at
    else:
        seen_at = lease.observed_at
        lease = _billed_unseen(lease, seen_at, at)
        computes_at = instance.bid if status is InstanceStatus.RUNNING else ZERO
        # It may have begun right after the last sight: between two sights the dearer one counts.
        lease = _billed_at_least(lease, seen_at, computes_at, ZERO)
    lease = replace(
        lease,
        status=status,
        last_seen_at=at,
        absences=0,
        absent_at=None,
        storage_rate=instance.storage_rate,
        host_id=instance.host_id or lease.host_id,
        offline_since=(lease.offline_since or at) if status is InstanceStatus.OFFLINE else None,
    ).billed_as(status, instance.bid, instance.storage_rate, billed_from)
    if not lease.is_wanted:
        if lease.state is LeaseState.DESTROY_SENT:
            lease = lease.moved(LeaseState.DESTROY_REQUESTED)
        return lease
    lease = replace(lease, bid=instance.bid)
    if status is not InstanceStatus.RUNNING:
        # Whatever the agent said last, it is not at work now; when it is back it says so itself.
        lease = replace(lease, agent_state="", preparing_since=None)
    if status is InstanceStatus.STOPPED:
        paid_in = lease.pause_cause is Reason.OUT_OF_CREDIT and not out_of_credit
        if lease.state is LeaseState.PAUSED and not paid_in:
            return lease
        cause = _pause_cause(lease, instance, at, out_of_credit)
        return lease.moved(LeaseState.PAUSED, paused_at=at, pause_cause=cause, running_since=None)
    if status is InstanceStatus.RUNNING:
        since = lease.running_since if previous is InstanceStatus.RUNNING else None
        return lease.moved(LeaseState.ACTIVE, running_since=since or at, paused_at=None, pause_cause=None, rebids=0)
    if lease.state is LeaseState.PAUSED and status is InstanceStatus.OFFLINE:
        return lease
    return lease.moved(LeaseState.ACTIVE, paused_at=None, pause_cause=None, running_since=None)


def _pause_cause(lease: Lease, instance: Instance, at: datetime, out_of_credit: bool) -> Reason:
    if out_of_credit:
        return Reason.OUT_OF_CREDIT
    if instance.ends_at is not None and at >= instance.ends_at:
        return Reason.EXPIRING
    if instance.start_failed and not lease.has_run:
        return Reason.STUCK_LOADING
    return Reason.OUTBID if instance.capacity_type is CapacityType.SPOT else Reason.UNKNOWN


def _with_bid(lease: Lease, bid: Decimal, at: datetime) -> Lease:
    lease = replace(lease, bid=bid)
    return lease.billed_as(lease.status, bid, lease.storage_rate, at) if lease.running_since else lease


def _promoted(job: Job, lease: Lease) -> Job:
    epoch = job.run_epoch + 1
    return _with(replace(job, run_epoch=epoch), replace(lease, slot=Slot.MAIN, role=Role.RUN, run_epoch=epoch))


def _exited(job: Job, event: e.RunExited) -> Job:
    lease = _lease(job, event.lease_id)
    if not event.run_epoch == lease.run_epoch == job.run_epoch or lease.exit_code is not None:
        return job
    job = _with(replace(job, exit_code=event.exit_code), replace(lease, exit_code=event.exit_code))
    if job.status.is_final or job.status in (JobStatus.CANCELLING, JobStatus.PARKED):
        return job
    if event.exit_code == 0:
        return replace(job, status=JobStatus.SUCCEEDED, reason=Reason.COMPLETED, finished_at=event.at)
    job = replace(job, failures=job.failures + 1)
    if job.failures >= job.spec.max_attempts:
        return replace(job, status=JobStatus.FAILED, reason=Reason.COMMAND_FAILED, finished_at=event.at)
    return job


def _work_counted(job: Job, before: Lease, after: Lease, event: e.Event) -> Job:
    """Count useful work while the command runs; fall back to the checkpoint when the run is lost."""
    if before.slot is not Slot.MAIN or before.role not in (Role.RUN, Role.SAVE_AND_STOP):
        return job
    was_at_work = before.is_wanted and before.running_since is not None
    if was_at_work and (not after.is_wanted or after.running_since is None):
        if not job.status.wants_capacity:
            return job
        kept = job.checkpoint.work_done if job.checkpoint else timedelta(0)
        return replace(job, work_done=kept, progress=None)
    if isinstance(event, e.LeaseObserved) and was_at_work and before.agent_state == "running" and before.last_seen_at:
        if before.agent_seen_at is None or event.at - before.agent_seen_at > HEARTBEAT_LASTS:
            return job
        return replace(job, work_done=job.work_done + max(event.at - before.last_seen_at, timedelta(0)))
    if isinstance(event, e.HeartbeatSeen) and after.run_epoch == job.run_epoch:
        step = job.step if event.step is None else event.step
        return replace(job, step=step, progress=event.progress)
    return job


def _pace_learned(job: Job, before: Lease, after: Lease, event: e.Event) -> tuple[Job, Lease]:
    """How fast the job goes on these GPUs: progress gained over work done, since this boot's first word of it."""
    if not isinstance(event, e.HeartbeatSeen) or event.agent_state != "running" or event.progress is None:
        return job, after
    if after.anchor_work is None or after.agent_boot != before.agent_boot:
        return job, replace(after, anchor_work=job.work_done, anchor_progress=event.progress)
    hours = Decimal(str((job.work_done - after.anchor_work) / timedelta(hours=1)))
    gained = event.progress - (after.anchor_progress or Decimal(0))
    if job.work_done - after.anchor_work < PACE_NEEDS or gained <= 0:
        return job, after
    key = pace_key(after.gpu, after.num_gpus)
    others = tuple(pace for pace in job.paces if pace[0] != key)
    return replace(job, paces=(*others, (key, (gained / hours).quantize(PACE_UNIT)))), after


def _launches_judged(job: Job, before: Lease, event: e.Event) -> Job:
    """Count launches in a row that came to nothing, so that a job that cannot start does not rent for ever."""
    match event:
        case e.HeartbeatSeen(_, _, _, "running"):
            return replace(job, fruitless=0)
        case e.ReleaseRequested(_, Reason.STUCK_LOADING | Reason.AGENT_SILENT, _) if before.is_wanted:
            worked = before.agent_state in AT_WORK
            return job if worked else replace(job, fruitless=job.fruitless + 1)
        case e.LeaseRefused(_, Reason.INVALID, _, _, _):
            return replace(job, fruitless=job.fruitless + 1)
        case _:
            return job


def _restate(job: Job, event: e.Event) -> Job:
    """The job's status as its leases imply it; final, parked and cancelling states are set by events only."""
    if job.status is JobStatus.CANCELLING and all(lease.is_over for lease in job.leases):
        return replace(job, status=JobStatus.CANCELLED, finished_at=event.at)
    if not job.status.wants_capacity:
        return job
    status, reason = _standing_of_leases(job)
    return job if (status, reason) == (job.status, job.reason) else replace(job, status=status, reason=reason)


def _standing_of_leases(job: Job) -> tuple[JobStatus, Reason]:
    main = job.main
    if main is None:
        ran_before = job.checkpoint is not None or job.step > 0
        if job.next is not None or ran_before:
            return JobStatus.RECOVERING, Reason.WAITING_FOR_OFFER
        return JobStatus.PENDING, Reason.SUBMITTED if job.launches == 0 else Reason.WAITING_FOR_OFFER
    if main.state is LeaseState.PAUSED:
        return JobStatus.PAUSED, main.pause_cause or Reason.UNKNOWN
    if main.offline_since is not None:
        return JobStatus.RECOVERING, Reason.HOST_LOST
    if job.next is not None:
        return JobStatus.MIGRATING, Reason.MOVING
    if main.state is LeaseState.INTENT:
        return JobStatus.STARTING, Reason.LAUNCHING
    if main.running_since is None or main.agent_state not in AT_WORK:
        return JobStatus.STARTING, Reason.PULLING
    return JobStatus.RUNNING, Reason.WORKING


def _lease(job: Job, lease_id: str) -> Lease:
    return next(lease for lease in job.leases if lease.id == lease_id)


def _with(job: Job, lease: Lease) -> Job:
    return replace(job, leases=tuple(lease if old.id == lease.id else old for old in job.leases))
