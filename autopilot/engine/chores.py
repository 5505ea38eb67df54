"""What a tick does last and may do late: settle bills, keep the market's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from autopilot.domain.offer import Offer, OfferQuery
from autopilot.engine.settle import due, settlement, window
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, PriceObservation, Provider
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

PRICES_EVERY = timedelta(minutes=5)


class Chores:
    def __init__(
        self,
        providers: Mapping[str, Provider],
        store: Store,
        clock: Clock,
        settle_delay: timedelta,
    ) -> None:
        self._providers = providers
        self._store = store
        self._clock = clock
        self._settle_delay = settle_delay
        self._settled_at: datetime | None = None
        self._prices_at: datetime | None = None

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
