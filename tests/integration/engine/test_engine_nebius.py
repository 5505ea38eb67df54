"""A job on Nebius: it is stopped where the price passes its cap, is started again by us, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from tests.integration.engine.engine_world import a_world
from tests.integration.engine.nebius_world import JOB, NebiusWorld

D = Decimal


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NebiusWorld]:
    async with a_world(tmp_path, kind=NebiusWorld, nebius_port=0) as made:
        assert isinstance(made, NebiusWorld)
        yield made


async def test_a_job_runs_to_its_end_and_leaves_nothing(world: NebiusWorld) -> None:
    lease = await world.running(JOB)
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    await world.check_books()
    (posted,) = (await world.spend()).values()
    # The price is looked at once a minute, and a machine once a tick; the price itself did not move.
    assert abs(posted - world.billed()) <= D("0.05")
    assert posted < lease.bid * D("0.25")


@pytest.mark.slow
async def test_a_machine_whose_cap_is_passed_is_started_again_when_the_price_has_fallen(world: NebiusWorld) -> None:
    world.agents.total_steps = 1500
    lease = await world.running(JOB)
    price = world.sandbox.nebius.pool_of(world.vm(lease)).price
    world.set_price(lease, D("5.20"))  # above what the job may pay
    await world.until(lambda job: job.main is not None and job.main.state is LeaseState.PAUSED, "it is stopped")
    world.set_price(lease, price)
    await world.until_running()
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    (only,) = [each for each in await world.leases() if each.instance_id]
    assert only.id == lease.id
    assert world.vm(only).boots == 2


@pytest.mark.slow
async def test_a_stopped_machine_gets_a_higher_cap_and_is_started_where_that_wins(world: NebiusWorld) -> None:
    world.agents.total_steps = 1500
    for pool in world.sandbox.nebius.pools.values():
        world.sandbox.nebius.set_price(pool, D("0.60"))
    lease = await world.running(JOB)
    first = world.vm(lease).policy_id
    assert lease.bid == D("1.80"), "three times the price"
    world.set_price(lease, D("2.20"))
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert world.vm(lease).policy_id != first
    assert world.vm(lease).boots == 2
    assert len([each for each in await world.leases() if each.instance_id]) == 1
    await world.check_books()


@pytest.mark.slow
async def test_a_create_that_finds_no_hardware_is_cleaned_up_and_another_kind_is_tried(world: NebiusWorld) -> None:
    await world.tick()
    await world.emu("POST", "nebius/fault", on="create", kind="no_hardware", times=1)
    await world.submit(JOB)
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert len(world.sandbox.nebius.vms) == 2
    await world.check_books()


async def test_a_create_whose_answer_is_lost_is_found_and_used_or_ended(world: NebiusWorld) -> None:
    await world.tick()
    await world.emu("POST", "nebius/fault", on="create", kind="effect_then_unavailable", times=1)
    await world.submit(JOB)
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    await world.check_books()


@pytest.mark.slow
async def test_a_policy_and_a_disk_that_stay_behind_are_deleted_later(world: NebiusWorld) -> None:
    """The machine is gone; its disk was left, and its policy refused to go."""
    await world.running(JOB)
    await world.emu("POST", "nebius/fault", on="end", kind="left_disk", times=1)
    await world.emu("POST", "nebius/fault", on="policy", kind="conflict", times=2)
    await world.until_over()
    await world.check_books()


@pytest.mark.slow
async def test_what_a_daemon_that_died_has_left_is_found_as_an_orphan(world: NebiusWorld) -> None:
    await world.running(JOB)
    await world.emu("POST", "nebius/fault", on="end", kind="left_disk", times=1)
    await world.emu("POST", "nebius/fault", on="policy", kind="unavailable", times=None)
    market = world.sandbox.nebius
    await world.until(lambda job: not world.alive(), "the machine is gone")
    await world.restart()
    await world.emu("DELETE", "nebius/faults")
    assert [vm for vm in market.vms.values() if vm.has_left_disk] or market.policies
    for _ in range(400):
        if not market.policies and not [vm for vm in market.vms.values() if vm.has_left_disk]:
            break
        await world.tick()
    await world.check_books()


@pytest.mark.slow
async def test_a_restarted_daemon_goes_on_with_the_machine_that_it_has(world: NebiusWorld) -> None:
    world.agents.total_steps = 900
    lease = await world.running(JOB)
    await world.restart()
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert len([each for each in await world.leases() if each.instance_id]) == 1
    assert world.vm(lease).boots == 1


@pytest.mark.slow
async def test_unwatched_hours_cost_what_the_market_s_record_says(world: NebiusWorld) -> None:
    """They were booked at the cap, which is three times the price."""
    world.agents.total_steps = 6000
    lease = await world.running(JOB)
    await world.until_checkpoint()
    for _ in range(2):
        world.clock.advance(840)
        await world.tick(4)
    by_our_clock = sum((await world.spend()).values(), D(0))
    assert by_our_clock > world.billed() * D("1.5")
    await world.until_over()
    (posted,) = (await world.spend()).values()
    assert world.billed() - D("0.01") <= posted < world.billed() * D("1.1")
    assert world.vm(lease).boots == 1


async def test_a_machine_that_stays_stopped_has_cost_its_disk(world: NebiusWorld) -> None:
    world.agents.total_steps = 1500
    lease = await world.running(JOB)
    world.set_price(lease, D("5.20"))  # above what the job may pay
    await world.until(lambda job: job.main is not None and job.main.state is LeaseState.PAUSED, "it is stopped")
    before = sum((await world.spend()).values(), D(0))
    world.clock.advance(3600)
    await world.tick()
    assert sum((await world.spend()).values(), D(0)) - before < lease.storage_rate * D("1.2") + D("0.01")
