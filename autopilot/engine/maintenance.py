"""What a tick does last and may do late: import the markets' invoices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from autopilot.domain import events as e
from autopilot.domain.instance import Charge
from autopilot.domain.labels import is_ours
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import evolve_orphan
from autopilot.engine.invoices import LATEST_BILL, import_invoice, is_due, settle_unbilled, window, write_off
from autopilot.engine.orphans import make_orphan
from autopilot.engine.recorded import read_record
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.provider import MarketUnknown, Provider
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

NIGHTLY_FROM_HOUR = 1
"""UTC: the bills of the day before have had an hour to come in."""
NIGHTLY_NOTE = "reconciled_on"


class Maintenance:
    def __init__(
        self,
        providers: Mapping[str, Provider],
        store: Store,
        clock: Clock,
        settle_delay: timedelta,
        install_id: str,
        ids: Ids,
    ) -> None:
        self._providers = providers
        self._store = store
        self._clock = clock
        self._settle_delay = settle_delay
        self._install_id = install_id
        self._ids = ids
        self._looked_at: datetime | None = None

    async def reconcile(self) -> None:
        """Import the markets' invoices.

        Of a machine that is gone: soon after its end, and again one and three days later. Of all that were rented
        lately: every night.
        """
        now = self._clock.now()
        if self._looked_at is not None and now - self._looked_at < self._settle_delay / 4:
            return
        self._looked_at = now
        async with self._store.snapshot() as uow:
            leases = await uow.leases.list_to_reconcile(now - LATEST_BILL)
            unresolved = await uow.leases.list_unresolved(now - LATEST_BILL)
            tonight = await uow.notes.get(NIGHTLY_NOTE) != str(now.date()) and now.hour >= NIGHTLY_FROM_HOUR
        if not tonight:
            leases = tuple(lease for lease in leases if is_due(lease, self._settle_delay, now))
            unresolved = ()
        names = sorted({lease.provider for lease in (*leases, *unresolved)})
        asked = [await self._reconcile_with(name, leases, unresolved) for name in names]
        if tonight and all(asked):
            async with self._store.transaction() as uow:
                await uow.notes.set(NIGHTLY_NOTE, str(now.date()))

    async def _reconcile_with(self, name: str, leases: Sequence[Lease], unresolved: Sequence[Lease]) -> bool:
        """False: the market did not show its bill and is to be asked again."""
        provider = self._providers.get(name)
        if provider is None:
            return True
        of_market = [lease for lease in leases if lease.provider == name]
        never_seen = {lease.label: lease for lease in unresolved if lease.provider == name}
        if not provider.capabilities.has_bills:
            await self._settle_unbilled(provider, of_market, never_seen.values())
            return True
        try:
            charges = await provider.charges(*window([*of_market, *never_seen.values()], self._clock.now()))
        except MarketUnknown as problem:
            log.warning("charges.unavailable", provider=name, reason=str(problem))
            return False
        async with self._store.transaction() as uow:
            for lease in of_market:
                await import_invoice(uow, lease, charges, self._clock.now())
            await self._take_in_unknown(uow, charges, never_seen)
            for lease in never_seen.values():  # those that the bill does not name either
                await write_off(uow, lease, self._clock.now())
        return True

    async def _settle_unbilled(
        self, provider: Provider, of_market: Sequence[Lease], never_seen: Iterable[Lease]
    ) -> None:
        gone = [lease for lease in of_market if lease.ending.gone_at is not None]
        unsettled = [lease for lease in gone if lease.billing.settled_at is None]
        records = {lease.id: await read_record(provider, lease) for lease in unsettled}
        async with self._store.transaction() as uow:
            for lease in gone:
                await settle_unbilled(uow, lease, records.get(lease.id, {}), self._clock.now())
            for lease in never_seen:
                await write_off(uow, lease, self._clock.now())

    async def _take_in_unknown(self, uow: UnitOfWork, charges: Sequence[Charge], never_seen: dict[str, Lease]) -> None:
        """A create took effect late, or made a second instance, and that ended before any list showed it: only the
        bill has it.

        It counts as one that the sweep found: it ends as all others do, and then its invoice is imported.
        """
        billed = {(charge.label, charge.instance_id) for charge in charges if is_ours(charge.label, self._install_id)}
        leases = await uow.leases.list_by_label({label for label, _ in billed})
        holders = {lease.label: lease for lease in leases if lease.instance_id is not None}
        for label, instance_id in sorted(billed - {(lease.label, lease.instance_id) for lease in leases}):
            lease = never_seen.pop(label, None)
            if lease is None and label in holders:
                holder = holders[label]
                lease = make_orphan(holder, self._ids.new(), holder.intended_at, Reason.DUPLICATE)
            if lease is None:
                continue
            holders[label] = lease
            log.warning("charges.unknown_instance", lease=lease.id, instance=instance_id)
            found = e.InstanceFound(lease.id, instance_id, self._clock.now(), only_billed=True)
            lease, records = evolve_orphan(lease, found)
            await uow.leases.save(lease)
            await uow.events.add(records)
