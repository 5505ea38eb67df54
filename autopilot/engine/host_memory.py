"""What machines show of themselves goes into the ledger with the events that tell it, and is read back each tick.

A launch says something of its machine when it is over: the agent spoke, or the machine was given up for its own fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from autopilot.domain.hosts import HOST_FAULTS, HostRecord, KnownHosts, MachineKey
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.pace import slow_share
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.ports.provider import Provider
from autopilot.ports.store import UnitOfWork


class HostMemory:
    """One per engine. ``known``: as of the newest tick."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self.known = KnownHosts()

    async def load(self, uow: UnitOfWork, now: datetime) -> None:
        """Each tick: a user may have blocked or forgiven some."""
        self.known = KnownHosts.of({record.key: record.at(now) for record in await uow.hosts.list()})

    async def learn(self, uow: UnitOfWork, event_logs: Iterable[EventLog], now: datetime) -> None:
        """From what this tick has changed."""
        changed: dict[MachineKey, HostRecord] = {}
        for event_log in event_logs:
            for lease, after in _pairs(event_log):
                machine_id, host_id = self._name(after)
                key = after.provider, machine_id
                blank = HostRecord(*key, host_id, after.gpu, now)
                before = changed.get(key) or self.known.find(*key) or blank
                record = judge(before, event_log.original, lease, after, now)
                if not self._is_pooled(after.provider):  # of a pool the next machine is another one
                    record = judge_pace(record, event_log.job, lease, after)
                if record != before:
                    changed[key] = record
        if changed:
            await uow.hosts.save(changed.values())

    def _name(self, lease: Lease) -> tuple[str, str]:
        """(machine, host) of its record. What comes to nothing again says nothing new of its host, but of its pool it
        does: how often that places machines there."""
        if not self._is_pooled(lease.provider):
            return lease.machine_id, lease.host_id
        is_told_apart = lease.host_id and lease.reason is not Reason.FAILED_BEFORE
        return (lease.host_id, lease.machine_id) if is_told_apart else (lease.machine_id, "")

    def _is_pooled(self, market: str) -> bool:
        provider = self._providers.get(market)
        return provider is not None and provider.capabilities.is_pooled


def judge(record: HostRecord, job: Job, before: Lease, after: Lease, now: datetime) -> HostRecord:
    """The record with what one lease has shown between two states of it; as it is where that is nothing."""
    if before.agent.boot == 0 and after.agent.boot > 0:
        loaded = now - (after.acquired_at or after.intended_at)
        record = record.with_loaded(job.spec.image, loaded.total_seconds())
    if before.is_wanted and not after.is_wanted and after.reason in HOST_FAULTS:
        was_heard = after.agent.boot > 0
        # Where nothing of a job has come up on others either, it may as well be the image.
        weight = 1.0 if was_heard else 1 / (1 + job.fruitless)
        record = record.with_fault(after.reason, now, weight, was_heard=was_heard)
    return record


def judge_pace(record: HostRecord, job: Job, before: Lease, after: Lease) -> HostRecord:
    """The same of its pace. One that goes on as it should is no longer slow."""
    if after.anchor.recent_pace is None or after.anchor == before.anchor:
        return record
    share = slow_share(job, after)
    if share is not None:
        return record.with_pace(float(share))
    return record.with_pace(None) if after.anchor.slow_windows == 0 else record


def _pairs(event_log: EventLog) -> Iterable[tuple[Lease, Lease]]:
    """The leases that the tick found, before and after it."""
    if not event_log.changed:
        return ()
    after = {lease.id: lease for lease in event_log.job.leases}
    return ((lease, after[lease.id]) for lease in event_log.original.leases if lease.id in after)
