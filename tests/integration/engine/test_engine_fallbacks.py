"""A market that keeps what it was told to destroy: the GPUs are stopped, or outbid, and the asking never ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.reasons import Reason
from autopilot.policy.scene import Scene
from autopilot_lab.sandbox.market.instances import Contract
from tests.integration.engine.engine_world import INSTALL_ID, D, World, a_world


async def released(world: World) -> Contract:
    """The market's record of a machine whose job was cancelled."""
    world.agents.total_steps = 1000
    instance = world.instance(await world.running())
    await world.jobs.cancel("train")
    return instance


async def ticks_until(world: World, holds: Callable[[], bool], what: str, most: int = 40) -> None:
    for _ in range(most):
        if holds():
            return
        await world.tick()
    raise AssertionError(f"not within {most} ticks: {what}")


async def test_a_machine_that_cannot_be_destroyed_is_stopped_and_then_destroyed(world: World) -> None:
    await world.fault("destroy", "http_500", times=None)
    instance = await released(world)
    await ticks_until(world, lambda: instance.intended == "stopped", "the machine is stopped")
    asked = await world.requests("destroy")
    assert asked == 3, "a stop is not the first answer to a hiccup"
    await world.tick(30)
    assert instance.destroyed_at is None
    assert await world.requests("destroy") > asked, "a stopped machine still bills its disk"
    assert await world.requests("state") == 1, "stopped once is enough"
    await world.clear_faults()
    job = await world.until_over(JobStatus.CANCELLED)
    assert [lease.state for lease in await world.leases()] == [LeaseState.GONE]
    assert job.spent > 0


@pytest.mark.slow
async def test_a_yes_without_effect_is_not_believed_for_ever(world: World) -> None:
    await world.fault("destroy", "no_effect_success", times=6)
    instance = await released(world)
    await ticks_until(world, lambda: instance.intended == "stopped", "the machine is stopped")
    await world.until_over(JobStatus.CANCELLED)
    assert instance.destroyed_at is not None


async def test_if_a_stop_fails_the_bid_is_lowered_below_any_floor(world: World) -> None:
    await world.fault("destroy", "http_500", times=None)
    await world.fault("state", "http_500", times=None)
    instance = await released(world)
    await ticks_until(world, lambda: instance.price <= D("0.001"), "the bid is lowered")
    assert instance.destroyed_at is None
    await world.clear_faults()
    await world.until_over(JobStatus.CANCELLED)


async def test_no_stop_is_sent_for_what_is_gone(world: World) -> None:
    await world.fault("destroy", "effect_then_500", times=None)
    await released(world)
    await world.tick(20)
    await world.clear_faults()
    await world.until_over(JobStatus.CANCELLED)
    assert await world.requests("state") == 0


@pytest.mark.slow
async def test_an_orphan_of_a_finished_job_is_stopped_too(world: World) -> None:
    await world.running()
    await world.fault("destroy", "http_500", times=8)
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6")
    await ticks_until(world, lambda: orphan.intended == "stopped", "the orphan is stopped")
    await world.until_over()
    assert orphan.destroyed_at is not None


async def test_the_only_machine_of_ours_is_spared_for_a_while_when_the_ledger_does_not_know_it(world: World) -> None:
    """One machine is all that most people have: a ledger that was lost must not cost them its work in half a minute."""
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6")
    await world.tick(20)
    assert orphan.destroyed_at is None
    (watch,) = world.engine.watches.values()
    assert not world.engine.market_view((), None, world.clock.now()).knows(watch.provider.name), "launches go on"
    world.clock.advance(1800)
    await world.tick(10)
    assert orphan.destroyed_at is not None


class FaultyRecorder:
    """Simulates any defect that makes every decision on a job fail."""

    def record(self, scene: Scene) -> None:
        raise RuntimeError("cannot record")


@pytest.mark.slow
async def test_no_machine_outlives_its_lease_even_if_its_job_cannot_be_decided_upon(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.tick()
        world.agents.total_steps = 100_000
        lease = await world.running()
        await world.stop()
        world.recorder = FaultyRecorder()
        await world.start()
        await world.tick(4)
        assert world.instance(lease).destroyed_at is None
        world.clock.advance((lease.not_after - world.clock.now()).total_seconds())
        await world.tick(4)
        assert world.instance(lease).destroyed_at is not None
        assert (await world.lease(lease.id)).reason is Reason.EXPIRING
