"""Applying events to a job while keeping the record of them for the event log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import structlog

from autopilot.domain import events as e
from autopilot.domain.agent_state import AgentState
from autopilot.domain.array import ArraySpec
from autopilot.domain.certificate import Certificate, ClaimFinding, Lack
from autopilot.domain.evolve import evolve
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Checkpoint, Job, JobSpec
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import Number
from autopilot.domain.pace import slow_share
from autopilot.domain.unfit import lacks_of, unbearable, warnings_of
from autopilot.ports.store import EventRecord

Fields = tuple[tuple[str, Number], ...]
Words = tuple[str, Fields]
"""An event's name in the log, and its fields."""

log = structlog.get_logger(__name__)


class EventLog:
    """One job on its way through a tick: ``job`` is its newest state, ``records`` what is to be logged."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.original = job
        self.records: list[EventRecord] = []
        self.is_broken = False
        self.verified: list[Checkpoint] = []
        """Checkpoints that are new to the ledger."""
        self.exits: list[e.RunExited] = []
        self._tied: list[EventLog] = []

    def tie(self, other: EventLog) -> None:
        """What has changed of the two belongs together: if one is given up, so is the other."""
        self._tied.append(other)
        other._tied.append(self)

    def give_up(self) -> None:
        """Back to where the tick began; nothing more is to be done for this job in it."""
        self.job = self.original
        self.records, self.verified, self.exits = [], [], []
        self.is_broken = True
        for other in self._tied:
            if not other.is_broken:
                other.give_up()

    @property
    def changed(self) -> bool:
        return self.job is not self.original and self.job != self.original

    def apply(self, event: e.Event) -> None:
        before = self.job
        self.job = evolve(before, event)
        if isinstance(event, e.CheckpointVerified):
            self.verified.append(event.checkpoint)
        if isinstance(event, e.RunExited):
            self.exits.append(event)
        lease_id = _lease_id(event)
        at = event.at
        if lease_id is None:
            self._log(event, None, None, at)
        else:
            old = next((lease for lease in before.leases if lease.id == lease_id), None)
            new = next((lease for lease in self.job.leases if lease.id == lease_id), None)
            self._log(event, old, new, at)
            told = _describe_stall(old, new, at), _describe_arrival(before, old, new)
            for said in (*told, _describe_slowing(before, self.job, old, new)):
                if said is not None:
                    self.records.append(EventRecord(at, said[0], self.job.id, lease_id, said[1]))
        if self.job.work_done < before.work_done:
            lost_s = round((before.work_done - self.job.work_done).total_seconds())
            self.records.append(EventRecord(at, "work.lost", self.job.id, lease_id, (("seconds", lost_s),)))
        if isinstance(event, e.PredecessorsEnded):
            due = self.job.spec.deadline
            fields: Fields = (("deadline", None if due is None else due.isoformat()),)
            self.records.append(EventRecord(at, "job.predecessors_ended", self.job.id, None, fields))
        for fields in _list_changes(before.spec, self.job.spec) if isinstance(event, e.SpecChanged) else ():
            self.records.append(EventRecord(at, "job.changed", self.job.id, None, fields))
        if self.job.status is not before.status:
            # Of a job that was moved by hand or for money its leases tell at once why it waits, not why it was moved.
            reason, numbers = (event.reason, event.numbers) if isinstance(event, e.StatusSet) else (self.job.reason, ())
            status: Fields = (("reason", reason), ("from", before.status), *numbers)
            self.records.append(EventRecord(at, f"job.{self.job.status}", self.job.id, None, status))

    def _log(self, event: e.Event, old: Lease | None, new: Lease | None, at: datetime) -> None:
        named = describe(event, old, new)
        if named is not None:
            lease = new or old  # a machine that is handed over is no longer the job's
            self.records.append(EventRecord(at, named[0], self.job.id, lease.id if lease else None, named[1]))


@contextmanager
def contain(event_log: EventLog) -> Iterator[None]:
    """One job's trouble is that job's alone: its changes of this tick are dropped, the others go on."""
    try:
        yield
    except Exception:
        log.exception("job.tick_failed", job=event_log.job.id)
        event_log.give_up()


def _list_changes(old: JobSpec, new: JobSpec) -> Iterator[Fields]:
    for field in dataclasses.fields(JobSpec):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            key = "parallel" if isinstance(after, ArraySpec) else field.name  # nothing else of it can be changed
            yield ("key", key), ("from", _number(before)), ("to", _number(after))


def _number(value: Any) -> Number:
    number: Number = value
    if isinstance(value, datetime):
        number = value.isoformat()
    elif isinstance(value, timedelta):
        number = round(value.total_seconds())
    elif isinstance(value, ArraySpec):
        number = value.parallel
    return number


def claim_settled(provider: str, finding: ClaimFinding) -> EventRecord:
    fields: Fields = (("provider", provider), ("claim", finding.claim), ("verdict", finding.verdict))
    return EventRecord(finding.at, "claim.settled", finding.job_id, None, fields)


def claim_accepted(provider: str, finding: ClaimFinding, at: datetime) -> EventRecord:
    return EventRecord(at, "claim.accepted", finding.job_id, None, (("provider", provider), ("claim", finding.claim)))


def certificate_issued(made: Certificate) -> EventRecord:
    fields: Fields = (("provider", made.provider), ("ends_at", made.ends_at.isoformat()))
    return EventRecord(made.issued_at, "certificate.issued", made.job_id, None, fields)


def certificate_ended(held: Certificate, at: datetime) -> EventRecord:
    fields: Fields = (("provider", held.provider), ("because", held.ended_because))
    return EventRecord(at, "certificate.ended", held.job_id, None, fields)


def evolve_orphan(lease: Lease, event: e.Event) -> tuple[Lease, list[EventRecord]]:
    """The same for a lease without a job."""
    after = evolve_lease(lease, event)
    named = describe(event, lease, after)
    return after, [EventRecord(event.at, named[0], None, lease.id, named[1])] if named else []


def checkpoint_lost(checkpoint: Checkpoint, at: datetime) -> EventRecord:
    """A checkpoint that was verified has been harmed in the store since."""
    fields: Fields = (("number", checkpoint.number), ("step", checkpoint.step))
    return EventRecord(at, "checkpoint.lost", checkpoint.job_id, checkpoint.lease_id, fields)


def checkpoint_set_aside(checkpoint: Checkpoint, by: str, at: datetime) -> EventRecord:
    """The job goes on from an older one. ``by``: ``machines`` that could not restore it, the ``run`` that began from it
    and failed soon, or the ``user``."""
    fields: Fields = (("number", checkpoint.number), ("step", checkpoint.step), ("by", by))
    return EventRecord(at, "checkpoint.set_aside", checkpoint.job_id, checkpoint.lease_id, fields)


def store_read(job_id: str, chosen: Checkpoint | None, machines: int, run_epoch: int, at: datetime) -> EventRecord:
    """What the store has of the job that the ledger did not know. ``chosen`` None: no checkpoint newer than its own."""
    fields: Fields = (
        ("number", chosen.number if chosen else None),
        ("step", chosen.step if chosen else None),
        ("machines", machines),
        ("run_epoch", run_epoch),
    )
    return EventRecord(at, "store.read", job_id, chosen.lease_id if chosen else None, fields)


def checkpoint_passed_over(job_id: str, lease_id: str, number: int | None, why: str, at: datetime) -> EventRecord:
    """The store has it and the job does not go on from it. ``lease_id``: the ledger may not know that one."""
    fields: Fields = (("lease", lease_id), ("number", number), ("why", why))
    return EventRecord(at, "checkpoint.passed_over", job_id, None, fields)


def exec_called(lease: Lease, uid: int, exit_code: int | None, ended: str, at: datetime) -> EventRecord:
    """Somebody had a command run beside the job. Neither the command nor its output is kept."""
    fields: Fields = (("uid", uid), ("exit_code", exit_code), ("ended", ended))
    return EventRecord(at, "exec.called", lease.job_id, lease.id, fields)


def market_unread(provider: str, unread_s: int, machines: int, at: datetime) -> EventRecord:
    fields: Fields = (("provider", provider), ("unread_s", unread_s), ("machines", machines))
    return EventRecord(at, "market.stayed_unread", None, None, fields)


def tunnel_failed(lease: Lease, fault: str, down_s: int, at: datetime) -> EventRecord:
    return EventRecord(at, "tunnel.failed", lease.job_id, lease.id, (("fault", fault), ("down_s", down_s)))


def market_quarantined(provider: str, at: datetime) -> EventRecord:
    return EventRecord(at, "market.quarantined", None, None, (("provider", provider),))


def account_changed(provider: str, machines: int, at: datetime) -> EventRecord:
    """``machines``: of the account before, that are not known to be over."""
    return EventRecord(at, "market.account_changed", None, None, (("provider", provider), ("machines", machines)))


def clock_doubted(ahead_s: int, at: datetime) -> EventRecord:
    """All markets that tell the time are ahead of our clock by that; behind it where it is negative."""
    return EventRecord(at, "clock.doubted", None, None, (("ahead_s", ahead_s),))


def card_pays(provider: str, credit: Decimal | None, below: Decimal | None, at: datetime) -> EventRecord:
    """By the account's answer a card tops it up by itself."""
    fields: Fields = (("provider", provider), ("credit", credit), ("below", below))
    return EventRecord(at, "account.tops_up", None, None, fields)


def certificate_ends(provider: str, ends_at: datetime, at: datetime) -> EventRecord:
    """It has asked to be renewed."""
    fields: Fields = (("provider", provider), ("ends_at", ends_at.isoformat()))
    return EventRecord(at, "certificate.ends_soon", None, None, fields)


def certificate_lacked(
    provider: str, lack: Lack, waiting: int, at: datetime, allowance: Decimal | None = None
) -> EventRecord:
    """Nothing new may be rented there, or only within an allowance (dollars).

    ``waiting``: jobs that have no machine and want one, wherever that may be.
    """
    bound: Fields = () if allowance is None else (("allowance", allowance),)
    fields: Fields = (("provider", provider), ("lack", lack), ("waiting", waiting), *bound)
    return EventRecord(at, "certificate.lacked", None, None, fields)


def credit_low(provider: str, credit: Decimal, per_hour: Decimal, at: datetime) -> EventRecord:
    fields: Fields = (("provider", provider), ("credit", credit), ("per_hour", per_hour))
    return EventRecord(at, "credit.ran_low", None, None, fields)


def budget_low(job: Job, budget: Decimal, at: datetime) -> EventRecord:
    return EventRecord(at, "budget.ran_low", job.id, None, (("spent", job.spent), ("budget", budget)))


def deadline_lost(job: Job, needed_s: int, left_s: int, at: datetime) -> EventRecord:
    """Not even the fastest GPU that it may use would make it."""
    return EventRecord(at, "deadline.lost", job.id, None, (("needed_s", needed_s), ("left_s", left_s)))


def daemon_restarted(since: str, at: datetime) -> EventRecord:
    """The daemon that began at ``since`` has left no word of its end."""
    return EventRecord(at, "daemon.restarted", None, None, (("since", since),))


def _lease_id(event: e.Event) -> str | None:
    match event:
        case e.LeaseIntended(lease) | e.LeaseInherited(lease) | e.LeaseRegained(lease):
            return lease.id
        case e.CheckpointVerified(checkpoint):
            return checkpoint.lease_id
        case (
            e.CheckpointChosen()
            | e.StatusSet()
            | e.PredecessorsEnded()
            | e.SpecChanged()
            | e.TaskRetried()
            | e.TaskExcused()
        ):
            return None
        case e.EpochRaised():
            return None
        case _:
            return event.lease_id


def describe(event: e.Event, old: Lease | None, new: Lease | None) -> Words | None:
    """The event's name and fields for the log, or None when it changed nothing worth a line."""
    words = _WORDS.get(type(event))
    return None if words is None else words(event, old, new)


def _describe_intended(event: e.LeaseIntended, *_: Lease | None) -> Words:
    lease = event.lease
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


def _describe_acquired(event: e.LeaseAcquired, *_: Lease | None) -> Words:
    return ("lease.adopted" if event.adopted else "lease.acquired"), (("instance_id", event.instance_id),)


def _describe_refused(event: e.LeaseRefused, *_: Lease | None) -> Words:
    return "lease.refused", (
        ("reason", event.reason),
        ("message", event.message),
        ("instance_id", event.instance_id),
    )


def _describe_promoted(event: e.LeasePromoted, _: Lease | None, new: Lease | None) -> Words:
    epoch = new.orders.run_epoch if new else None
    return "lease.promoted", (("reason", event.reason), ("run_epoch", epoch))


def _describe_ordered(event: e.RunOrdered, _: Lease | None, new: Lease | None) -> Words:
    epoch = new.orders.run_epoch if new else None
    return "run.ordered", (("reason", event.reason), ("run_epoch", epoch))


def _describe_inherited(event: e.LeaseInherited, _: Lease | None, new: Lease | None) -> Words:
    epoch = new.orders.run_epoch if new else None
    return "lease.inherited", (("machine_id", event.lease.machine_id), ("run_epoch", epoch))


def _describe_regained(event: e.LeaseRegained, *_: Lease | None) -> Words:
    lease = event.lease
    return "lease.regained", (
        ("provider", lease.provider),
        ("machine_id", lease.machine_id),
        ("instance_id", lease.instance_id),
        ("gpu", lease.gpu),
        ("state", lease.state),
        ("intended_at", lease.intended_at.isoformat()),
    )


def _describe_exit(event: e.RunExited, _: Lease | None, new: Lease | None) -> Words:
    fields: Fields = (("exit_code", event.exit_code), ("run_epoch", event.run_epoch))
    if event.memory is not None:
        fields += (("memory_peak", event.memory[0]), ("memory_limit", event.memory[1]))
    is_blamed = new is not None and new.agent.is_blamed
    return "run.exited", (*fields, ("blamed", "machine")) if is_blamed else fields


def _describe_verified(event: e.CheckpointVerified, *_: Lease | None) -> Words:
    checkpoint = event.checkpoint
    return "checkpoint.suspect" if checkpoint.is_suspect else "checkpoint.verified", (
        ("number", checkpoint.number),
        ("step", checkpoint.step),
        ("bytes", checkpoint.size_bytes),
    )


def _heartbeat(event: e.HeartbeatSeen, old: Lease | None, new: Lease | None) -> Words | None:
    """Only a change of the agent's state, or a new boot, is worth a line."""
    if old is not None and (old == new or (old.agent.state, old.agent.boot) == (event.agent_state, event.boot)):
        return None
    return "agent.reported", (("state", event.agent_state), ("boot", event.boot))


def _describe_stall(old: Lease | None, new: Lease | None, at: datetime) -> Words | None:
    """A stall that begins, and one that ends by something new rather than with its run."""
    if old is None or new is None or old.agent.stalled_since == new.agent.stalled_since:
        return None
    began, ended = new.agent.stalled_since, old.agent.stalled_since
    if began is not None:
        return "run.stalled", (("since", began.isoformat()),)
    if ended is None or new.agent.state is not AgentState.RUNNING or new.agent.boot != old.agent.boot:
        return None
    return "run.went_on", (("still_s", round((at - ended).total_seconds())),)


def _describe_arrival(job: Job, old: Lease | None, new: Lease | None) -> Words | None:
    """Once for each machine: what its check on arrival has found, and whether it is left for that."""
    arrival = new.agent.readings.arrival if new is not None and new.agent.readings else None
    if arrival is None or new is None or (old and old.agent.readings and old.agent.readings.arrival is not None):
        return None
    lacks, left = lacks_of(job, new), unbearable(job, new)
    fields: list[tuple[str, Number]] = [("took_s", arrival.took_s)]
    for found in (*lacks, *warnings_of(job, new)):
        fields += [(found.kind, found.has), (f"{found.kind}_wanted", found.wanted)]
    if lacks:
        fields.append(("left", int(bool(left))))
    return "lease.unfit" if lacks else "lease.checked", tuple(fields)


def _describe_slowing(before: Job, after: Job, old: Lease | None, new: Lease | None) -> Words | None:
    """A machine that has become slow, and one that goes on as it should."""
    if old is None or new is None or old.anchor is new.anchor:
        return None
    was, share = slow_share(before, old), slow_share(after, new)
    if was is None and share is not None:
        return "machine.slowed", (("pace", share.quantize(Decimal("0.01"))), *_place_of(new))
    if was is not None and share is None and new.anchor.recent_pace is not None and new.is_wanted:
        return "machine.recovered", _place_of(new)
    return None


def _place_of(lease: Lease) -> Fields:
    return ("provider", lease.provider), ("machine_id", lease.machine_id)


def _observation(old: Lease | None, new: Lease | None) -> Words | None:
    if old is None or new is None:
        return None
    if new.state is LeaseState.PAUSED and old.state is not LeaseState.PAUSED:
        observed = new.observed
        return "lease.paused", (
            ("cause", observed.pause_cause),
            ("bid", new.bid),
            ("price_to_win", observed.price_to_win),
        )
    if new.observed.offline_since and not old.observed.offline_since:
        return "lease.offline", ()
    if new.observed.running_since and not old.observed.running_since:
        ran_before = any(span.status is InstanceStatus.RUNNING for span in old.spans)
        name = "lease.resumed" if ran_before or old.state is LeaseState.PAUSED else "lease.running"
        return name, (("bid", new.bid),)
    if old.state is LeaseState.DESTROY_SENT and new.state is LeaseState.DESTROY_REQUESTED:
        return "lease.destroy_ignored", ()
    return None


_WORDS: Mapping[type[e.Event], Callable[[Any, Lease | None, Lease | None], Words | None]] = {
    e.LeaseIntended: _describe_intended,
    e.LeaseAcquired: _describe_acquired,
    e.LeaseRefused: _describe_refused,
    e.LeaseUncertain: lambda event, *_: ("lease.create_unknown", (("message", event.message),)),
    e.LeaseAbandoned: lambda event, *_: ("lease.abandoned", (("reason", event.reason),)),
    e.ImageLoginRefused: lambda event, *_: (
        "image.login_refused",
        (("server", event.server), ("secret", event.secret or None), ("message", event.message)),
    ),
    e.BootFailed: lambda event, *_: ("lease.boot_failed", (("fault", event.fault), ("message", event.message))),
    e.NoticeChanged: lambda event, *_: (
        ("lease.notice", (("kind", event.kind), ("ends_at", event.ends_at)))
        if event.kind
        else ("lease.notice_withdrawn", ())
    ),
    e.LeaseGone: lambda event, _, new: ("lease.gone", (("reason", new.reason if new else None),)),
    e.BidIntended: lambda event, old, _: ("bid.intended", (("bid", event.bid), ("from", old.bid if old else None))),
    e.BidChanged: lambda event, *_: ("bid.changed", (("bid", event.bid),)),
    e.BidRefused: lambda event, *_: ("bid.refused", (("current_bid", event.bid),)),
    e.StartIntended: lambda *_: ("lease.start_intended", ()),
    e.StartFailed: lambda *_: ("lease.start_failed", ()),
    e.ReleaseRequested: lambda event, *_: ("lease.release_requested", (("reason", event.reason),)),
    e.InstanceFound: lambda event, *_: ("lease.instance_found", (("instance_id", event.instance_id),)),
    e.DestroySent: lambda event, *_: ("lease.destroy_sent", (("accepted", str(event.accepted).lower()),)),
    e.StopOrdered: lambda event, *_: ("run.stop_ordered", (("reason", event.reason),)),
    e.HoldBegun: lambda event, _, new: (
        "lease.held",
        (("until", event.until.isoformat()), ("per_hour", new.burn_upper if new else None)),
    ),
    e.LeasePromoted: _describe_promoted,
    e.RunOrdered: _describe_ordered,
    e.CheckpointVerified: _describe_verified,
    e.RunExited: _describe_exit,
    e.RunRestored: lambda event, *_: ("run.restored", (("number", event.number), ("of_run", event.run_epoch))),
    e.LeaseHandedOver: lambda event, *_: ("lease.handed_over", (("task", event.task),)),
    e.LeaseInherited: _describe_inherited,
    e.LeaseRegained: _describe_regained,
    e.TaskExcused: lambda *_: ("run.excused", ()),
    e.LeaseSettled: lambda *_: ("lease.settled", ()),
    e.LeaseObserved: lambda _, old, new: _observation(old, new),
    e.HeartbeatSeen: _heartbeat,
}
"""What the log says of each event; None for those that are not in it, or that say nothing new."""
