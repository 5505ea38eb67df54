"""Floors that the user watches: recorded without any job, and what the first job bids by."""

from __future__ import annotations

from datetime import timedelta

from autopilot import render
from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Note
from autopilot.domain.job import GpuChoice
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.engine.watching import Watching, watch_queries
from autopilot.words.reasons import tell
from tests.integration.engine.engine_world import JOB, World

WATCHED = (GpuChoice("RTX 4090"),)
DUE = JOB.replace('estimate = "10m"', 'estimate = "2h"\n[deadline]\nwithin = "3h"')


async def watching(world: World) -> None:
    world.watched = WATCHED
    await world.restart()


async def recorded(world: World, gpu: str = "RTX 4090") -> tuple[PriceObservation, ...]:
    now = world.clock.now()
    async with world.store.snapshot() as uow:
        return await uow.prices.list_by_gpu(gpu, now - timedelta(days=30), now)


async def told(world: World) -> list[str]:
    """What the job's decisions noted, in words."""
    job = await world.job()
    async with world.store.snapshot() as uow:
        decisions = await uow.decisions.list_by_job(job.id, limit=100)
    notes = [note for each in decisions for note in each.notes]
    return [tell(from_json(Note, render.note(note))) for note in notes]


async def test_floors_are_recorded_at_all_times_and_no_job_is_needed(world: World) -> None:
    await world.tick(30)
    assert await recorded(world) == (), "no watch is set"
    await watching(world)
    await world.tick(81)
    seen = await recorded(world)
    assert len({each.observed_at for each in seen}) == 5, "every five minutes of twenty"
    assert all(each.floor for each in seen)
    assert {each.gpu for each in seen} == {"RTX 4090"}
    machines = {each.machine_id for each in seen}
    assert 1 < len(machines) <= 8


async def test_a_job_that_searches_the_gpu_searches_for_the_record_too(world: World) -> None:
    await watching(world)
    await world.submit(DUE)
    await world.until_running()
    (query,) = watch_queries(WATCHED)
    markets, of_job = tuple(world.engine.watches.values()), (await world.job()).spec.query
    watching_now = Watching(WATCHED)
    assert await watching_now.read(markets, [of_job]) == {}
    assert set(await watching_now.read(markets, [])) == {query}


async def test_the_first_job_bids_by_what_was_watched_and_says_so(world: World) -> None:
    await watching(world)
    (query,) = watch_queries(WATCHED)
    await world.tick()
    offers = await world.engine.offers(query)
    began = world.clock.now() - timedelta(days=2)
    async with world.store.transaction() as uow:
        for number in range(timedelta(days=2) // PRICES_EVERY):
            await uow.prices.add(
                PriceObservation(
                    "vastai", each.machine_id, each.gpu, each.num_gpus, each.floor, None, began + number * PRICES_EVERY
                )
                for each in offers
            )
    await world.submit(DUE)
    for _ in range(6):
        await world.tick()
        await world.engine.outlooks.close()  # what is made in threads takes no market time
    lease = (await world.job()).main
    assert lease is not None
    floor = next(each.floor for each in offers if each.machine_id == lease.machine_id)
    assert floor is not None
    assert floor < lease.bid < floor * Params().bids.markup, "learnt, for by the rule it would be higher"
    said = await told(world)
    assert any(each.startswith("bids are learned from 48 h of recorded floors") for each in said), said


async def test_without_a_record_the_first_machine_is_not_waited_for_long_and_why_names_the_prior(world: World) -> None:
    await watching(world)
    await world.tick()
    await world.submit(DUE)
    lease = await world.until_running()
    assert lease.acquired_at is not None
    assert lease.acquired_at - (await world.job()).submitted_at < timedelta(minutes=2)
    said = await told(world)
    assert any(
        each.startswith("bids follow the default rule and a shipped prior: 0 h of floors recorded") for each in said
    )
