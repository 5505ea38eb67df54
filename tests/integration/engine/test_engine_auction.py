"""Bids that are learnt from the floors that the daemon itself has recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.lease import Lease
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.prices import PRICES_EVERY
from autopilot.engine.history import observation
from autopilot.pricing.rule.bidding import first_bid
from autopilot.service.recording import FileRecorder
from autopilot_lab.backtest.replay import replay
from tests.integration.engine.engine_world import JOB, D, World

DUE = JOB.replace('estimate = "10m"', 'estimate = "2h"\n[deadline]\nwithin = "3h"')
LONG_AGO = timedelta(days=5)


async def floors(world: World) -> dict[str, Offer]:
    """What may be bid on, by machine, the cheapest first."""
    job = await world.job()
    offers = [offer for offer in await world.engine.offers(job.spec.query) if offer.floor]
    return {offer.machine_id: offer for offer in sorted(offers, key=lambda offer: offer.floor or 0)}


async def record(world: World, times: Callable[[str, int], Decimal], lasting: timedelta = LONG_AGO) -> None:
    """A past in which each floor was ``times(machine, number)`` what it is now, at the number-th observation."""
    offers = (await floors(world)).values()
    began = world.clock.now() - lasting
    async with world.store.transaction() as uow:
        for number in range(lasting // PRICES_EVERY):
            for offer in offers:
                seen = replace(offer, floor=(offer.floor or D(0)) * times(offer.machine_id, number))
                await uow.prices.add([observation(seen, began + number * PRICES_EVERY)])


async def record_the_past(world: World, restless: str, lasting: timedelta = LONG_AGO) -> None:
    """The floor of one machine was fourfold every quarter of an hour, those of the others rested."""
    await record(world, lambda machine, number: D(4 if machine == restless and number % 3 == 0 else 1), lasting)


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


@pytest.mark.slow
async def test_without_a_past_bids_follow_the_rule(world: World) -> None:
    machine, offer = await submitted(world)
    lease = await displaced(world)
    assert lease.machine_id == machine
    assert lease.bid == first_bid((await world.job()).spec, offer, Params())


@pytest.mark.slow
async def test_days_of_calm_floors_are_had_for_less_than_by_the_rule(world: World, tmp_path: Path) -> None:
    recording = tmp_path / "session.gz"
    world.recorder = recorder = FileRecorder(recording)
    await world.restart()
    await submitted(world)
    offers = await floors(world)
    await record(world, lambda machine, number: D(1))
    await world.restart()  # the record is read again
    lease = await displaced(world)
    floor = offers[lease.machine_id].floor
    assert floor is not None
    assert floor < lease.bid < floor * Params().bids.markup
    await world.until(lambda job: job.status.is_final, "the job is over", most=400)
    recorder.close()
    done = replay(recording)
    assert done.difference is None, done.difference


async def test_less_than_four_hours_are_too_little_to_learn_from(world: World) -> None:
    machine, _ = await submitted(world)
    await record_the_past(world, machine, timedelta(hours=2))
    assert (await displaced(world)).machine_id == machine
