"""Bids that are learnt from the floors that the daemon itself has recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import Lease, LeaseState
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


async def bid_on_a_peak(world: World) -> Lease:
    """Running on a machine that was bid on while all floors were half as high again as they mostly were."""
    world.agents.total_steps = 7200
    await world.tick()
    await world.submit(DUE)
    await record(world, lambda _, number: D(1) if number % 36 < 2 else D("0.6667"), timedelta(days=2))
    return await world.until_running()


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
    assert lease.bid == first_bid((await world.job()).spec, offer, Params())


@pytest.mark.slow
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
    assert floor < lease.bid < floor * Params().bids.markup, "machines that rest are had for less than by the rule"
    await world.until(lambda job: job.status.is_final, "the job is over", most=400)
    recorder.close()
    done = replay(recording)
    assert done.difference is None, done.difference


async def test_less_than_four_hours_are_too_little_to_learn_from(world: World) -> None:
    machine, _ = await submitted(world)
    await record_the_past(world, machine, timedelta(hours=2))
    assert (await displaced(world)).machine_id == machine


async def with_learnt_bids(world: World, holds: Callable[[Lease], bool], what: str) -> Lease:
    for _ in range(480):
        await world.engine.outlooks.close()  # what is made in threads takes no market time
        main = (await world.job()).main
        if main is not None and holds(main):
            return main
        await world.tick()
    raise AssertionError(f"{what}; {await world.story()}")


async def test_a_bid_on_a_peak_is_lowered_once_it_has_likely_passed(world: World) -> None:
    before = await bid_on_a_peak(world)
    machine = world.market.machines[int(before.machine_id)]
    world.market.set_floor(int(before.machine_id), (machine.floor * D("0.6667")).quantize(D("0.0001")))
    lease = await with_learnt_bids(world, lambda lease: lease.bid < before.bid, "a lower bid")
    assert lease.id == before.id
    assert lease.bid < before.bid * D("0.7")
    await world.tick(8)
    job = await world.job()
    assert job.main is not None
    assert (job.main.id, job.main.observed.status, job.main.bid) == (before.id, InstanceStatus.RUNNING, lease.bid)
    world.agents.total_steps = 60  # the rest tells nothing new
    await world.until_over()


async def test_one_lowered_in_vain_goes_back_to_what_wins(world: World, tmp_path: Path) -> None:
    recording = tmp_path / "session.gz"
    world.recorder = recorder = FileRecorder(recording)
    await world.restart()
    before = await bid_on_a_peak(world)
    lowered = await with_learnt_bids(world, lambda lease: lease.bid < before.bid, "a lower bid")
    lease = await with_learnt_bids(world, lambda lease: lease.state is LeaseState.PAUSED, "paused by its rival")
    assert lease.id == before.id
    again = await with_learnt_bids(
        world, lambda lease: lease.observed.status is InstanceStatus.RUNNING, "it runs again"
    )
    assert (again.id, again.state) == (before.id, LeaseState.ACTIVE)
    assert lowered.bid < again.bid <= before.bid
    world.agents.total_steps = 60
    await world.until_over()
    recorder.close()
    done = replay(recording)
    assert done.difference is None, done.difference
