"""The market's history: prices written down every few minutes, thinned out and in the end forgotten as time goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState, Slot
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.domain.readings import MachineReading, reading_of
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

HELD = frozenset({LeaseState.ACTIVE, LeaseState.PAUSED})
READINGS_EVERY = timedelta(minutes=5)
NEVER = datetime.min.replace(tzinfo=UTC)

ANSWERS_KEPT_FOR = timedelta(days=1)
"""To requests that carried a key."""
NOTICES_KEPT_FOR = timedelta(days=3)
"""That their sinks have not taken: what they say is old by then."""
TIDY_EVERY = timedelta(hours=1)
HOURS_AT_ONCE = 6
"""So many hours of prices are put together in one transaction: others wait for it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what is not money is kept."""

    raw: timedelta = timedelta(days=14)
    """Prices as they were seen; older ones are put together by the hour."""
    prices: timedelta = timedelta(days=365)
    events: timedelta = timedelta(days=90)
    """Decisions, events and machines' readings of a job, after its end; what answers no longer show."""


class History:
    def __init__(self, store: Store, clock: Clock, retention: Retention) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention
        self._prices_at: datetime | None = None
        self._readings_at: dict[str, datetime] = {}
        self._tidied_at: datetime | None = None

    async def record_prices(
        self, uow: UnitOfWork, offers: Mapping[OfferQuery, tuple[Offer, ...]], leases: Iterable[Lease], now: datetime
    ) -> None:
        """``leases``: a machine that we hold is not gone, though its floor is not seen: it is recorded without one."""
        if self._prices_at is not None and now - self._prices_at < PRICES_EVERY:
            return
        seen = {offer.key: offer for found in offers.values() for offer in found}
        if seen:
            held = {
                (lease.provider, lease.machine_id, lease.num_gpus): lease for lease in leases if lease.state in HELD
            }
            await uow.prices.add(
                [
                    *(observation(offer, now) for offer in seen.values()),
                    *(_without_floor(lease, now) for key, lease in held.items() if key not in seen),
                ]
            )
            self._prices_at = now

    async def record_readings(self, uow: UnitOfWork, jobs: Iterable[Job]) -> None:
        """The newest of each machine that is heard, so far apart that a picture of days is small."""
        heard = [(job, lease) for job in jobs for lease in job.leases if lease.is_wanted and lease.agent.readings]
        self._readings_at = {lease.id: await self._recorded_at(uow, lease) for _, lease in heard}
        due = [reading for job, lease in heard if (reading := self._due(job, lease)) is not None]
        await uow.machine_readings.add(due)
        self._readings_at |= {reading.lease_id: reading.at for reading in due}

    async def _recorded_at(self, uow: UnitOfWork, lease: Lease) -> datetime:
        if lease.id in self._readings_at:
            return self._readings_at[lease.id]
        newest = await uow.machine_readings.list_by_lease(lease.id, limit=1)
        return newest[0].at if newest else NEVER

    def _due(self, job: Job, lease: Lease) -> MachineReading | None:
        agent = lease.agent
        if agent.seen_at is None or agent.readings is None:
            return None
        # One recorded in the future is no reason to wait: the clock was wrong then.
        if timedelta(0) <= agent.seen_at - self._readings_at[lease.id] < READINGS_EVERY:
            return None
        progress = None if job.progress is None or lease.slot is not Slot.MAIN else float(job.progress)
        return reading_of(lease.id, agent.seen_at, agent.readings, progress)

    async def tidy(self) -> None:
        """Thin out and forget what is old. Much of it is done in several ticks."""
        now = self._clock.now()
        if self._tidied_at is not None and now - self._tidied_at < TIDY_EVERY:
            return
        async with self._store.transaction() as uow:
            thinned = await uow.prices.thin(now - self._retention.raw, hours=HOURS_AT_ONCE)
            forgotten = await uow.prices.forget(now - self._retention.prices)
            old = now - self._retention.events
            forgotten += await uow.decisions.forget(old) + await uow.events.forget(old)
            forgotten += await uow.machine_readings.forget(old) + await uow.drifts.forget(old)
            forgotten += await uow.hosts.forget(old)
            forgotten += await uow.answers.forget(now - ANSWERS_KEPT_FOR)
            given_up = await uow.notices.forget(now - NOTICES_KEPT_FOR)
        if given_up:
            log.error("notices.given_up", notices=given_up, days=NOTICES_KEPT_FOR.days)
        if thinned or forgotten:
            log.info("history.tidied", hours_thinned=thinned, rows_forgotten=forgotten)
        if thinned < HOURS_AT_ONCE:
            self._tidied_at = now


def _without_floor(lease: Lease, now: datetime) -> PriceObservation:
    """An observation of a machine that we hold: its floor would echo our own bid."""
    return PriceObservation(
        provider=lease.provider,
        machine_id=lease.machine_id,
        gpu=lease.gpu,
        num_gpus=lease.num_gpus,
        floor=None,
        on_demand_price=None,
        observed_at=now,
        host_id=lease.host_id,
    )


def observation(offer: Offer, now: datetime) -> PriceObservation:
    return PriceObservation(
        provider=offer.provider,
        machine_id=offer.machine_id,
        gpu=offer.gpu,
        num_gpus=offer.num_gpus,
        floor=offer.floor,
        on_demand_price=offer.on_demand_price,
        observed_at=now,
        host_id=offer.host_id,
        storage_price=offer.storage_price,
        upload_price=offer.upload_price,
        download_price=offer.download_price,
        reliability=offer.reliability,
        verified=offer.verified,
        ends_at=offer.ends_at,
        clearing_price=offer.clearing_price,
    )
