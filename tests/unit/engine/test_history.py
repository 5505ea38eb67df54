"""Prices written down and thinned out by the clock alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from autopilot.clock import ManualClock
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.engine.history import History, Retention, observation
from autopilot.store.memory.store import MemoryStore

START = datetime(2026, 11, 1, tzinfo=UTC)
QUERY = OfferQuery((("RTX 4090", 1),), Decimal(0), Decimal(20), verified_only=True, datacenter_only=False)
OFFER = Offer(
    provider="vastai",
    offer_id="1",
    machine_id="m1",
    host_id="h1",
    gpu="RTX 4090",
    num_gpus=1,
    vram_gb=Decimal(24),
    floor=Decimal("0.20"),
    on_demand_price=Decimal("0.40"),
    storage_price=Decimal("0.15"),
    upload_price=Decimal("0.01"),
    download_price=Decimal("0.02"),
    download_mbps=Decimal(900),
    reliability=Decimal("0.99"),
    verified=True,
    datacenter=False,
    disk_gb=Decimal(200),
    location="DE",
    ends_at=START + timedelta(days=9),
)
SHORT = Retention(raw=timedelta(days=1), prices=timedelta(days=3), events=timedelta(days=2))


async def test_an_observation_holds_all_that_a_replay_needs() -> None:
    seen = observation(OFFER, START)
    for name in seen.__slots__:
        if hasattr(OFFER, name):
            assert getattr(seen, name) == getattr(OFFER, name)
    assert (seen.observed_at, seen.samples, seen.floor_low) == (START, 1, None)


async def test_prices_are_kept_five_minutes_apart_thinned_and_forgotten() -> None:
    clock, store = ManualClock(START), MemoryStore()
    history = History(store, clock, SHORT)

    async def kept() -> list[tuple[datetime, int]]:
        async with store.snapshot() as uow:
            prices = await uow.prices.list_by_gpu(
                "RTX 4090", START - timedelta(days=9), clock.now() + timedelta(days=1)
            )
        return [(seen.observed_at, seen.samples) for seen in prices]

    async with store.transaction() as uow:
        await history.record_prices(uow, {}, clock.now())  # nothing was looked for: that is no observation
    for _ in range(12):
        async with store.transaction() as uow:
            await history.record_prices(uow, {QUERY: (OFFER, OFFER)}, clock.now())
        clock.advance(timedelta(minutes=2).total_seconds())
    recorded = [(START + timedelta(minutes=6 * n), 1) for n in range(4)]
    assert await kept() == recorded
    await history.tidy()
    clock.advance(timedelta(hours=23).total_seconds())
    await history.tidy()
    assert await kept() == recorded
    clock.advance(timedelta(hours=2).total_seconds())
    await history.tidy()
    assert await kept() == [(START, 4)]
    clock.advance(timedelta(days=2).total_seconds())
    await history.tidy()
    assert await kept() == []


async def test_much_that_is_old_is_thinned_in_several_passes() -> None:
    clock, store = ManualClock(START), MemoryStore()
    async with store.transaction() as uow:
        await uow.prices.add(observation(OFFER, START - timedelta(days=2, minutes=30 * n)) for n in range(40))
    history = History(store, clock, SHORT)
    sizes = []
    for _ in range(6):
        await history.tidy()
        async with store.snapshot() as uow:
            sizes.append(len(await uow.prices.list_by_gpu("RTX 4090", START - timedelta(days=9), START)))
    assert sizes[0] == 40 - 6 + 1
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == sizes[-2] <= 21
