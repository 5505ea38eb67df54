"""Time in which nobody watched: what it is booked as, and what becomes of a job whose money it seems to have taken."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.policy.budget import unobserved_cost
from tests.integration.engine.engine_world import JOB, D, World

PERMIT_S = 900
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "5h"')


async def posted(world: World) -> Decimal:
    return sum((await world.spend()).values(), D(0))


async def sleep_past_the_permit(world: World, lease: Lease, rest_s: float, *, destroys: bool = False) -> None:
    """The daemon sleeps; its machine ends itself when its permit is over."""
    renewed_at = (await world.lease(lease.id)).permit.renewed_at
    assert renewed_at is not None
    world.clock.advance((renewed_at - world.clock.now()).total_seconds() + PERMIT_S + 90)
    world.sandbox.synchronise()
    if destroys:
        world.market.destroy(int(lease.instance_id or 0), "the machine itself")
    else:
        world.market.stop(int(lease.instance_id or 0))
    world.clock.advance(rest_s)


def billed(world: World, lease: Lease) -> Decimal:
    cost = world.instance(lease).meter.total(world.clock.now())
    return D(cost.numerator) / D(cost.denominator)


@pytest.mark.parametrize("destroys", [False, True], ids=["stopped", "destroyed"])
async def test_a_machine_that_ended_itself_is_not_booked_for_the_rest_of_the_sleep(
    world: World, destroys: bool
) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await sleep_past_the_permit(world, lease, 7200, destroys=destroys)
    await world.tick(3 if destroys else 1, apart_s=30)
    more = await posted(world) - billed(world, lease)
    assert D(0) <= more + D("0.01"), "never less than it cost, but for what is not yet worth a cent"
    assert more < D("0.03"), "the sleep itself was two hours"


async def test_a_machine_that_still_runs_is_booked_for_all_of_the_sleep(world: World) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    world.clock.advance(7200)
    await world.tick()
    assert await posted(world) >= billed(world, lease) - D("0.01")


async def test_a_machine_that_woke_again_meanwhile_is_booked_for_all_of_the_sleep(world: World) -> None:
    """It was outbid, came back, and heard nobody: its newest word is of another boot."""
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    world.market.stop(int(lease.instance_id or 0))
    world.clock.advance(3600)
    world.sandbox.synchronise()
    world.market.start(int(lease.instance_id or 0))
    world.clock.advance(60)
    world.sandbox.synchronise()
    await world.agents.act(world.clock.now())
    world.clock.advance(1800)
    world.sandbox.synchronise()
    world.market.stop(int(lease.instance_id or 0))
    await world.tick()
    assert await posted(world) >= billed(world, lease)
    assert await posted(world) > lease.bid * D("1.4")


async def test_nothing_is_posted_for_a_silent_market_before_it_speaks_again(world: World) -> None:
    """Limits count it meanwhile; the ledger takes nothing back, so it waits until somebody has looked."""
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await world.fault("list", "http_503", times=None)
    before = await posted(world)
    await world.tick(30, apart_s=60)
    assert await posted(world) == before
    held = await world.lease(lease.id)
    assert unobserved_cost(held, world.clock.now(), Params()) >= lease.burn_upper * D("0.5")
    await world.clear_faults()
    await world.tick(2)
    assert await posted(world) >= billed(world, lease) - D("0.01")


async def test_a_silent_market_whose_machine_ended_itself_counts_to_the_end_of_its_permit(world: World) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await world.fault("list", "http_503", times=None)
    await world.tick(20, apart_s=60)
    await sleep_past_the_permit(world, lease, 3600)
    await world.clear_faults()
    await world.tick()
    more = await posted(world) - billed(world, lease)
    assert -D("0.01") <= more < D("0.03")
    assert (await world.job()).status is not JobStatus.PARKED
