"""Applying events to a job while keeping the record of them for the event log."""

from __future__ import annotations

from datetime import datetime

from autopilot.domain import events as e
from autopilot.domain.evolve import evolve
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import Number
from autopilot.ports.store import EventRecord

Fields = tuple[tuple[str, Number], ...]


class EventLog:
    """One job on its way through a tick: ``job`` is its newest state, ``records`` what is to be logged."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.original = job
        self.records: list[EventRecord] = []
        self.is_broken = False

    def give_up(self) -> None:
        """Back to where the tick began; nothing more is to be done for this job in it."""
        self.job = self.original
        self.records = []
        self.is_broken = True

    @property
    def changed(self) -> bool:
        return self.job is not self.original and self.job != self.original

    def apply(self, event: e.Event) -> None:
        before = self.job
        self.job = evolve(before, event)
        lease_id = _lease_id(event)
        at = event.at
        if lease_id is None:
            self._log(event, None, None, at)
        else:
            old = next((lease for lease in before.leases if lease.id == lease_id), None)
            new = next((lease for lease in self.job.leases if lease.id == lease_id), None)
            self._log(event, old, new, at)
        if self.job.work_done < before.work_done:
            lost_s = round((before.work_done - self.job.work_done).total_seconds())
            self.records.append(EventRecord(at, "work.lost", self.job.id, lease_id, (("seconds", lost_s),)))
        if self.job.status is not before.status:
            fields: Fields = (("reason", self.job.reason), ("from", before.status))
            self.records.append(EventRecord(at, f"job.{self.job.status}", self.job.id, None, fields))

    def _log(self, event: e.Event, old: Lease | None, new: Lease | None, at: datetime) -> None:
        named = describe(event, old, new)
        if named is not None:
            lease_id = new.id if new else None
            self.records.append(EventRecord(at, named[0], self.job.id, lease_id, named[1]))


def evolve_orphan(lease: Lease, event: e.Event) -> tuple[Lease, list[EventRecord]]:
    """The same for a lease without a job."""
    after = evolve_lease(lease, event)
    named = describe(event, lease, after)
    return after, [EventRecord(event.at, named[0], None, lease.id, named[1])] if named else []


def checkpoint_lost(checkpoint: Checkpoint, at: datetime) -> EventRecord:
    """A checkpoint that was verified has been harmed in the store since."""
    fields: Fields = (("number", checkpoint.number), ("step", checkpoint.step))
    return EventRecord(at, "checkpoint.lost", checkpoint.job_id, checkpoint.lease_id, fields)


def _lease_id(event: e.Event) -> str | None:
    match event:
        case e.LeaseIntended(lease):
            return lease.id
        case e.CheckpointVerified(checkpoint):
            return checkpoint.lease_id
        case e.StatusSet():
            return None
        case _:
            return event.lease_id


def describe(event: e.Event, old: Lease | None, new: Lease | None) -> tuple[str, Fields] | None:
    """The event's name and fields for the log, or None when it changed nothing worth a line."""
    match event:
        case e.LeaseIntended(lease):
            return "lease.intended", (
                ("provider", lease.provider),
                ("machine_id", lease.machine_id),
                ("gpu", lease.gpu),
                ("capacity_type", lease.capacity_type),
                ("bid", lease.bid),
                ("reserved", lease.billing.reserved),
                ("slot", lease.slot),
                ("reason", lease.reason),
            )
        case e.LeaseAcquired(_, instance_id, _, adopted):
            return ("lease.adopted" if adopted else "lease.acquired"), (("instance_id", instance_id),)
        case e.LeaseRefused(_, reason, message, instance_id, _):
            return "lease.refused", (("reason", reason), ("message", message), ("instance_id", instance_id))
        case e.LeaseUncertain(_, message, _):
            return "lease.create_unknown", (("message", message),)
        case e.LeaseAbandoned(_, reason, _):
            return "lease.abandoned", (("reason", reason),)
        case e.LeaseGone():
            return "lease.gone", (("reason", new.reason if new else None),)
        case e.BidIntended(_, bid, _):
            return "bid.intended", (("bid", bid), ("from", old.bid if old else None))
        case e.BidChanged(_, bid, _):
            return "bid.changed", (("bid", bid),)
        case e.BidRefused(_, bid, _):
            return "bid.refused", (("current_bid", bid),)
        case e.ReleaseRequested(_, reason, _):
            return "lease.release_requested", (("reason", reason),)
        case e.InstanceFound(_, instance_id, _):
            return "lease.instance_found", (("instance_id", instance_id),)
        case e.DestroySent(_, accepted, _):
            return "lease.destroy_sent", (("accepted", str(accepted).lower()),)
        case e.StopOrdered(_, reason, _):
            return "run.stop_ordered", (("reason", reason),)
        case e.LeasePromoted(_, reason, _):
            return "lease.promoted", (("reason", reason), ("run_epoch", new.orders.run_epoch if new else None))
        case e.CheckpointVerified(checkpoint):
            return "checkpoint.verified", (
                ("number", checkpoint.number),
                ("step", checkpoint.step),
                ("bytes", checkpoint.size_bytes),
            )
        case e.RunExited(_, run_epoch, exit_code, _):
            return "run.exited", (("exit_code", exit_code), ("run_epoch", run_epoch))
        case e.LeaseSettled():
            return "lease.settled", ()
        case e.LeaseObserved():
            return _observation(old, new)
        case e.HeartbeatSeen(_, boot, _, agent_state):
            if old is not None and (old == new or (old.agent.state, old.agent.boot) == (agent_state, boot)):
                return None
            return "agent.reported", (("state", agent_state), ("boot", boot))
        case _:
            return None


def _observation(old: Lease | None, new: Lease | None) -> tuple[str, Fields] | None:
    if old is None or new is None:
        return None
    if new.state is LeaseState.PAUSED and old.state is not LeaseState.PAUSED:
        return "lease.paused", (("cause", new.observed.pause_cause), ("bid", new.bid))
    if new.observed.offline_since and not old.observed.offline_since:
        return "lease.offline", ()
    if new.observed.running_since and not old.observed.running_since:
        ran_before = any(span.status is InstanceStatus.RUNNING for span in old.spans)
        name = "lease.resumed" if ran_before or old.state is LeaseState.PAUSED else "lease.running"
        return name, (("bid", new.bid),)
    if old.state is LeaseState.DESTROY_SENT and new.state is LeaseState.DESTROY_REQUESTED:
        return "lease.destroy_ignored", ()
    return None
