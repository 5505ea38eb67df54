"""A daemon whose clock is wrong: it rents nothing, says so, and sets nothing by what a market says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.status import Status
from autopilot.cli.trouble import tell
from autopilot.domain.lease import LeaseState
from tests.integration.engine.engine_world import World
from tests.unit.cli.sample_daemon import sample

HOUR = timedelta(hours=1)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta(minutes=2)])
async def test_nothing_is_rented_until_the_clocks_agree(world: World, ahead: timedelta) -> None:
    world.sandbox.time_ahead = ahead
    before = world.clock.now()
    await world.submit()
    await world.tick(6)
    assert (await world.leases(), world.creates()) == ((), 0)
    error = world.engine.clock_error
    assert error is not None
    assert abs(error - ahead) <= timedelta(seconds=1)
    assert world.clock.now() - before < timedelta(minutes=5), "no market sets our clock"
    async with world.store.snapshot() as uow:
        events = [each.name for each in await uow.events.list_after(0)]
    assert events.count("clock.doubted") == 1, "what lasts is said once"
    world.sandbox.time_ahead = timedelta(0)
    await world.until_over()


@pytest.mark.slow
async def test_a_machine_that_is_rented_goes_on(world: World) -> None:
    world.agents.total_steps = 400
    lease = await world.running()
    world.sandbox.time_ahead = HOUR
    await world.tick(8)
    assert (await world.lease(lease.id)).state is LeaseState.ACTIVE
    assert world.creates() == 1
    await world.until_over()


async def test_seconds_are_no_matter(world: World) -> None:
    world.sandbox.time_ahead = timedelta(seconds=40)
    await world.running()
    assert world.engine.clock_error is None
    await world.until_over()


def test_ps_says_so() -> None:
    status = from_json(Status, sample("status"))
    assert tell(status) == []
    (said,) = tell(replace(status, clock_behind_s=7200))
    assert said.startswith("The daemon's clock is 2 h slow, as the markets say. Nothing is rented")
