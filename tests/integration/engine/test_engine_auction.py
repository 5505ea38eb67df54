"""Bids that are learnt from the floors that the daemon itself has recorded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from engine_world import JOB, World

from autopilot.backtest.replay import replay
from autopilot.domain.lease import Lease
from autopilot.domain.offer import Offer
from autopilot.engine.history import PRICES_EVERY, observation
from autopilot.policy.bidding import first_bid
from autopilot.policy.params import Params
from autopilot.service.recording import FileRecorder

DUE = JOB.replace('estimate = "10m"', 'estimate = "2h"\n[deadline]\nwithin = "3h"')
LONG_AGO = timedelta(days=5)


async def floors(world: World) -> dict[str, Offer]:
    """What may be bid on, by machine, the cheapest first."""
    job = await world.job()
    offers = [offer for offer in await world.engine.offers(job.spec.query) if offer.floor]
    return {offer.machine_id: offer for offer in sorted(offers, key=lambda offer: offer.floor or 0)}


async def record_the_past(world: World, restless: str, lasting: timedelta = LONG_AGO) -> None:
    """The floor of one machine was fourfold every quarter of an hour, those of the others rested."""
    offers = (await floors(world)).values()
    began = world.clock.now() - lasting
    async with world.store.transaction() as uow:
        for number in range(lasting // PRICES_EVERY):
            for offer in offers:
                times = 4 if offer.machine_id == restless and number % 3 == 0 else 1
                seen = replace(offer, floor=(offer.floor or 0) * times)
                await uow.add_prices([observation(seen, began + number * PRICES_EVERY)])


async def displaced(world: World) -> Lease:
    """Outbid by far some minutes after it began: the machine that it goes to."""
    before = await world.until_running()
    for _ in range(12):
        await world.engine.outlooks.close()  # what is made in threads takes no market time
        await world.tick()
    world.rival(before, "5")
    await world.until(lambda job: job.launches == 2, "another machine")
    return await world.until_running()


async def submitted(world: World) -> tuple[str, Offer]:
    """The job, and what the rule takes when the cheapest machine is lost: the one with the next floor."""
    await world.tick()
    await world.submit(DUE)
    return list((await floors(world)).items())[1]


async def test_without_a_past_bids_follow_the_rule(world: World) -> None:
    machine, offer = await submitted(world)
    lease = await displaced(world)
    assert lease.machine_id == machine
    assert lease.rate == first_bid((await world.job()).spec, offer, Params())


async def test_a_machine_whose_floor_never_rests_is_passed_over(world: World, tmp_path: Path) -> None:
    recording = tmp_path / "session.gz"
    world.recorder = recorder = FileRecorder(recording)
    await world.restart()
    restless, _ = await submitted(world)
    offers = await floors(world)
    await record_the_past(world, restless)
    lease = await displaced(world)
    assert lease.machine_id != restless
    floor = offers[lease.machine_id].floor
    assert floor is not None
    assert floor < lease.rate < floor * Params().markup, "machines that rest are had for less than by the rule"
    await world.until(lambda job: job.status.is_final, "the job is over", most=400)
    recorder.close()
    done = replay(recording)
    assert done.difference is None, done.difference


async def test_less_than_a_day_is_too_little_to_learn_from(world: World) -> None:
    machine, _ = await submitted(world)
    await record_the_past(world, machine, timedelta(hours=23))
    assert (await displaced(world)).machine_id == machine
