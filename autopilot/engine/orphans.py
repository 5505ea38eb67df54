"""Instances with our label that no live lease holds: adopted into a lease that wants nothing but their end."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from autopilot.domain import events as e
from autopilot.domain.instance import Instance
from autopilot.domain.labels import is_ours
from autopilot.domain.lease import Lease, LeaseOrders, LeaseState, Role, Slot
from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog, evolve_orphan
from autopilot.engine.observe import Reading
from autopilot.engine.reconcile import find_unaccounted, lease_events
from autopilot.engine.sweep import Sweep
from autopilot.ports.ids import Ids
from autopilot.ports.store import UnitOfWork

log = structlog.get_logger(__name__)

NOTE = "quarantines"
RECALLED_FOR = timedelta(minutes=10)
"""How old a note of a quarantine may be. An older one came with a ledger that was put back, and says nothing of now."""


class Orphans:
    def __init__(self, install_id: str, ids: Ids) -> None:
        self._install_id = install_id
        self._ids = ids
        self._sweeps: defaultdict[str, Sweep] = defaultdict(Sweep)
        self._kept: str | None = None

    def is_quarantined(self, provider: str, now: datetime) -> bool:
        sweep = self._sweeps.get(provider)
        return sweep is not None and sweep.is_quarantined(now)

    async def pass_over(
        self,
        uow: UnitOfWork,
        readings: Mapping[str, Reading],
        event_logs: Sequence[EventLog],
        busy: Collection[str],
        now: datetime,
        is_spared: Callable[[str], bool] = lambda _: False,
    ) -> tuple[Lease, ...]:
        """Advance the leases that belong to no open job, and take in what the sweep found. Returns them all, those too
        that are over now: their last cost is yet to be posted. ``is_spared``: by label, whether a job may take the
        machine back.
        """
        await self._recall(uow, now)
        orphans: dict[str, Lease] = {}
        for lease in await uow.leases.list_orphans():
            reading = readings.get(lease.provider)
            for event in lease_events(lease, reading, busy, now) if reading else ():
                lease, records = evolve_orphan(lease, event)
                await uow.events.add(records)
            await uow.leases.save(lease)
            orphans[lease.id] = lease
        for reading in readings.values():
            swept = await self._sweep(uow, reading, event_logs, now)
            for found, holder in (pair for pair in swept if not is_spared(pair[0].label)):
                log.warning(
                    "sweep.found",
                    provider=found.provider,
                    instance=found.instance_id,
                    label=found.label,
                    bid=found.bid,
                    lease=holder.id if holder else None,
                )
                await self._take_in(uow, found, holder, event_logs, orphans, now)
        await self._keep(uow, readings, now)
        return tuple(orphans.values())

    async def _recall(self, uow: UnitOfWork, now: datetime) -> None:
        """Go on with the quarantines of the daemon before: one that crashes every half hour would end none of them."""
        if self._kept is not None:
            return
        kept = await uow.notes.get(NOTE) or "{}"
        for provider, (since, seen) in json.loads(kept).items():
            if now - datetime.fromisoformat(seen) <= RECALLED_FOR:
                self._sweeps[provider] = Sweep(quarantined_at=datetime.fromisoformat(since))
        self._kept = kept

    async def _keep(self, uow: UnitOfWork, providers: Iterable[str], now: datetime) -> None:
        """Write down since when these markets are quarantined, and that they still are."""
        since = {provider: self._sweeps[provider].quarantined_at for provider in providers}
        quarantines = {provider: (at.isoformat(), now.isoformat()) for provider, at in since.items() if at}
        text = json.dumps(quarantines, sort_keys=True)
        if text != self._kept:
            await uow.notes.set(NOTE, text)
            self._kept = text

    async def _sweep(
        self, uow: UnitOfWork, reading: Reading, event_logs: Sequence[EventLog], now: datetime
    ) -> list[tuple[Instance, Lease | None]]:
        sweep = self._sweeps[reading.provider]
        if reading.instances is None or not reading.is_fresh:
            return []
        ours = [i for i in reading.instances if is_ours(i.label, self._install_id)]
        # Those of open jobs were read in this transaction, and most machines are theirs.
        open_jobs = (lease for each in event_logs for lease in each.original.leases if not lease.is_over)
        held = {(lease.label, lease.instance_id) for lease in open_jobs}
        others = [instance for instance in ours if (instance.label, instance.instance_id) not in held]
        named: dict[str, list[Lease]] = {}
        for lease in await uow.leases.list_by_label({instance.label for instance in others}) if others else ():
            named.setdefault(lease.label, []).append(lease)
        was = sweep.is_quarantined(now)
        found = sweep.look(len(ours), find_unaccounted(others, named), now)
        if sweep.is_quarantined(now) and not was:
            log.error("market.quarantined", provider=reading.provider, instances=len(ours))
        return found

    async def _take_in(
        self,
        uow: UnitOfWork,
        instance: Instance,
        holder: Lease | None,
        event_logs: Sequence[EventLog],
        orphans: dict[str, Lease],
        now: datetime,
    ) -> None:
        """Give the instance a lease that asks for its destroy: the tombstone it belongs to, or a new orphan."""
        if holder is not None and holder.is_over and holder.instance_id in (None, instance.instance_id):
            # Its job may be long finished and not be loaded, so the lease goes on as a lease, whosever it is.
            lease = holder
        else:
            reason = Reason.ORPHAN if holder is None else Reason.DUPLICATE
            lease = make_orphan(instance, self._ids.new(), now, reason)
        lease, records = evolve_orphan(lease, e.InstanceFound(lease.id, instance.instance_id, now))
        await uow.leases.save(lease)
        await uow.events.add(records)
        if lease.job_id is None:
            orphans[lease.id] = lease


def make_orphan(machine: Instance | Lease, lease_id: str, since: datetime, reason: Reason) -> Lease:
    """A lease for an instance that was not ordered: no reserve, no job, only to be ended."""
    return Lease(
        id=lease_id,
        job_id=None,
        slot=Slot.MAIN,
        state=LeaseState.ABANDONED,
        provider=machine.provider,
        label=machine.label,
        capacity_type=machine.capacity_type,
        offer_id="",
        machine_id=machine.machine_id,
        host_id=machine.host_id,
        gpu=machine.gpu,
        num_gpus=machine.num_gpus,
        disk_gb=ZERO,
        bid=machine.bid,
        storage_rate=machine.storage_rate,
        on_demand_price=None,
        intended_at=since,
        not_after=since + timedelta(hours=1),
        reason=reason,
        orders=LeaseOrders(Role.LEAVE),
    )
