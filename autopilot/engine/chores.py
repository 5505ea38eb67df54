"""What a tick does last and may do late: settle bills, delete surplus checkpoints, keep the market's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from autopilot.domain.job import Job
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.engine.settle import due, settlement, window
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, PriceObservation, Provider
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

PRICES_EVERY = timedelta(minutes=5)
FEWEST_KEPT = 2
"""Checkpoints that are always kept, whatever the job file says: the newest may yet prove bad to restore."""


class Chores:
    def __init__(
        self,
        providers: Mapping[str, Provider],
        store: Store,
        blobs: BlobStore,
        clock: Clock,
        settle_delay: timedelta,
    ) -> None:
        self._providers = providers
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._settle_delay = settle_delay
        self._settled_at: datetime | None = None
        self._prices_at: datetime | None = None
        self._tidied: dict[str, tuple[int, int]] = {}

    async def settle(self) -> None:
        """Take over the market's own figures for instances that are gone."""
        now = self._clock.now()
        if self._settled_at is not None and now - self._settled_at < self._settle_delay / 4:
            return
        self._settled_at = now
        async with self._store.snapshot() as uow:
            waiting = due(await uow.unsettled_leases(), self._clock.now(), self._settle_delay)
        for name, leases in waiting.items():
            provider = self._providers.get(name)
            if provider is None:
                continue
            try:
                charges = await provider.charges(*window(leases, self._clock.now()))
            except MarketUnknown as problem:
                log.warning("charges.unavailable", provider=name, reason=str(problem))
                continue
            async with self._store.transaction() as uow:
                now = self._clock.now()
                posted = await uow.posted([lease.id for lease in leases])
                for lease in leases:
                    entries = settlement(lease, posted.get(lease.id, {}), charges, now)
                    if entries is not None:
                        await uow.post(entries)
                        await uow.save_lease(replace(lease, settled_at=now))
                        log.info("lease.settled", lease=lease.id, entries=len(entries))

    async def delete_surplus_checkpoints(self, jobs: Sequence[Job]) -> None:
        """Keep the newest few of each job; what cannot be deleted now is tried again when the next one comes."""
        for job in jobs:
            if job.checkpoint is None or self._tidied.get(job.id) == job.checkpoint.order:
                continue
            async with self._store.snapshot() as uow:
                surplus = (await uow.checkpoints_of(job.id))[max(job.spec.checkpoints_kept, FEWEST_KEPT) :]
            for checkpoint in surplus:
                try:
                    await self._blobs.delete_prefix(f"jobs/{job.id}/{checkpoint.lease_id}/ckpt/{checkpoint.number}")
                except BlobUnavailable as problem:
                    log.warning("checkpoint.undeleted", job=job.id, reason=str(problem))
                    return
                async with self._store.transaction() as uow:
                    await uow.remove_checkpoint(checkpoint)
            self._tidied[job.id] = job.checkpoint.order

    async def record_prices(
        self, uow: UnitOfWork, offers: Mapping[OfferQuery, tuple[Offer, ...]], now: datetime
    ) -> None:
        if self._prices_at is not None and now - self._prices_at < PRICES_EVERY:
            return
        seen = {offer.key: offer for found in offers.values() for offer in found}
        await uow.add_prices(
            PriceObservation(o.provider, o.machine_id, o.gpu, o.num_gpus, o.floor, o.on_demand_rate, now)
            for o in seen.values()
        )
        self._prices_at = now
