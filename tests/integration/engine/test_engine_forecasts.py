"""A job's forecast is stored with it, renewed while it is open, and recalculated when its limits change."""

from __future__ import annotations

from typing import Any

from autopilot.domain.job_forecast import RENEWED_AFTER, JobForecast
from autopilot.planning.forecaster import Forecaster
from tests.integration.engine.engine_world import JOB, World

DUE = JOB.replace('estimate = "10m"', 'estimate = "4h"') + '\n[deadline]\nwithin = "12h"\n'


async def told(world: World) -> Any:
    return (await world.jobs.show("train"))["forecast"]


async def kept(world: World) -> JobForecast | None:
    async with world.store.snapshot() as uow:
        return (await uow.forecasts.of_jobs([world.job_id])).get(world.job_id)


async def test_a_forecast_is_renewed_while_the_job_runs_and_recalculated_for_other_limits(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.running(DUE)
    first = await kept(world)
    assert first is not None, "the plan's own"
    assert first.spent == 0
    assert first.on_time == (await told(world))["on_time"]
    assert first.done_p10 is not None
    assert first.done_p50 is not None
    assert first.done_p90 is not None
    assert first.at < first.done_p10 <= first.done_p50 <= first.done_p90
    forecaster = Forecaster(world.engine, world.store, world.clock)
    await forecaster.renew()
    assert await kept(world) == first, "it is not due yet"
    world.clock.advance(RENEWED_AFTER.total_seconds())
    await world.tick(3)
    await forecaster.renew()
    second = await kept(world)
    assert second is not None
    assert second.at > first.at
    assert second.spent > 0
    assert second.p50 < first.p50, "less of the work is left"
    await world.jobs.change("train", {"deadline": "20h"})
    assert await kept(world) is None, "it was reckoned for another deadline"
    await forecaster.renew()
    third = await kept(world)
    assert third is not None, "a job that has none does not wait"
    await world.jobs.stop("train")
    await world.tick(2)
    assert await told(world) is None, "nothing is foretold of a job that is not to go on"
    world.clock.advance(RENEWED_AFTER.total_seconds())
    await forecaster.renew()
    assert await kept(world) == third
