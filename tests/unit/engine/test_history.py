"""Prices written down and thinned out by the clock alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from autopilot.clock import ManualClock
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.domain.readings import Gpu, MachineReading, Readings
from autopilot.engine.history import History, Retention, observation
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import a_job, a_lease, a_new_home

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
        await history.record_prices(uow, {}, [], clock.now())  # nothing was looked for: that is no observation
    for _ in range(12):
        async with store.transaction() as uow:
            await history.record_prices(uow, {QUERY: (OFFER, OFFER)}, [], clock.now())
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


async def test_a_machine_that_we_hold_is_marked_and_has_no_floor() -> None:
    store = MemoryStore()
    held, gone = a_lease(machine_id="held"), a_lease("gone", machine_id="gone", state=LeaseState.GONE)
    listed = a_lease("listed", machine_id=OFFER.machine_id)
    async with store.transaction() as uow:
        history = History(store, ManualClock(START), SHORT)
        await history.record_prices(uow, {QUERY: (OFFER,)}, [held, gone, listed], START)
        seen = await uow.prices.list_by_gpu("RTX 4090", START, START + timedelta(minutes=1))
    assert {each.machine_id: each.floor for each in seen} == {"m1": Decimal("0.20"), "held": None}


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


async def test_what_machines_read_is_kept_five_minutes_apart_and_forgotten_with_its_job() -> None:
    clock, store = ManualClock(START), MemoryStore()
    taken = Readings((Gpu(0.9, 21, 24), Gpu(0.1, 3, 24), Gpu()), 12, 3.1)

    async def keep(history: History, *readings: Readings | None) -> list[datetime]:
        """A beat of the agent each minute; when the points were made that are kept by then."""
        for each in readings:
            job = a_job(a_lease(agent_seen_at=clock.now(), readings=each), a_new_home(), progress=Decimal("0.25"))
            async with store.transaction() as uow:
                await uow.jobs.save(job)
                await history.record_readings(uow, [job])
            clock.advance(60)
        async with store.snapshot() as uow:
            points = await uow.machine_readings.list_by_lease("lease-1", limit=99)
        assert {replace(point, at=START) for point in points} == {
            MachineReading("lease-1", START, 0.5, 0.5, 12, 3.1, 0.25)
        }
        return [point.at for point in points]

    expected = [START + timedelta(minutes=minute) for minute in (0, 5, 10)]
    assert await keep(History(store, clock, SHORT), *[taken] * 7) == expected[:2]
    assert await keep(History(store, clock, SHORT), *[taken] * 4) == expected, "a restart makes none more"
    async with store.transaction() as uow:
        over = a_job(a_lease(state=LeaseState.GONE), status=JobStatus.FAILED, finished_at=clock.now())
        await uow.jobs.save(over)
    clock.advance(timedelta(days=3).total_seconds())
    await History(store, clock, SHORT).tidy()
    async with store.snapshot() as uow:
        assert await uow.machine_readings.list_by_lease("lease-1", limit=99) == ()


async def test_an_agent_that_sends_no_readings_makes_no_points() -> None:
    clock, store = ManualClock(START), MemoryStore()
    job = a_job(a_lease(agent_seen_at=START))
    async with store.transaction() as uow:
        await uow.jobs.save(job)
        await History(store, clock, SHORT).record_readings(uow, [job])
        assert await uow.machine_readings.list_by_lease("lease-1", limit=9) == ()
