"""A planned move, step by step, and with either side lost at each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role, Slot
from autopilot.domain.reasons import Reason
from autopilot_lab.sandbox.market.machines import HostState
from tests.integration.engine.engine_world import D, World

LONG_JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "RTX 4090:1"
[work]
estimate = "3h"
[checkpoint]
path = "ckpt"
interval = "5m"
"""


async def moving(world: World, lost_answer: str | None = None) -> Lease:
    """A job whose machine has become dear; the tick that rents the new home is over. Returns the old one's lease."""
    world.agents.total_steps = 2300
    lease = await world.running(LONG_JOB)
    world.clock.advance(1800)
    if lost_answer is not None:
        await world.fault("create", lost_answer)
    for machine in world.market.machines.values():
        if machine.spec.machine_id != int(lease.machine_id):
            world.market.set_floor(machine.spec.machine_id, D("0.05"))
    await world.until(lambda job: job.next is not None, "a cheaper home")
    return lease


async def until_step(world: World, step: str) -> None:
    await world.until(STEPS[step], step, most=30)


STEPS: dict[str, Callable[[Job], bool]] = {
    "renting": lambda job: job.next is not None,
    "loading": lambda job: job.next is not None and job.next.state is LeaseState.ACTIVE,
    "saving": lambda job: job.main is not None and job.main.orders.role is Role.SAVE_AND_STOP,
    "promoted": lambda job: job.next is None and job.run_epoch == 2,
}


async def test_a_move_for_price_goes_step_by_step_and_loses_no_work(world: World) -> None:
    old = await moving(world)
    job = await world.job()
    assert job.status is JobStatus.MIGRATING
    assert job.next is not None
    assert (job.next.reason, job.next.slot, job.next.orders.role) == (Reason.CHEAPER_ELSEWHERE, Slot.NEXT, Role.WAIT)
    new_id = job.next.id
    await until_step(world, "saving")
    assert world.agents.of((await world.lease(new_id)).instance_id).state == "waiting"
    world.agents.deaf.add(old.id)  # it takes its time to save
    await world.tick(4)
    assert (await world.lease(old.id)).orders.role is Role.SAVE_AND_STOP, "moved on before the last work was saved"
    world.agents.deaf.clear()
    await until_step(world, "promoted")
    done_before = world.agents.of(old.instance_id).step
    job = await world.job()
    assert job.checkpoint is not None
    assert (job.checkpoint.lease_id, job.checkpoint.step) == (old.id, done_before)
    new = await world.until_running()
    assert (new.id, new.slot, new.orders.run_epoch) == (new_id, Slot.MAIN, 2)
    await world.tick()
    assert world.agents.of(new.instance_id).step >= done_before
    left = await world.lease(old.id)
    assert (left.is_wanted, left.reason) == (False, Reason.MOVING)
    await world.until_over()
    assert len(await world.leases()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("step", ["loading", "saving"])
async def test_the_old_machine_lost_on_the_way_promotes_the_new_one(world: World, step: str) -> None:
    old = await moving(world)
    await until_step(world, step)
    world.market.set_host(int(old.machine_id), HostState.VANISHED)
    new = await world.until(lambda job: job.main is not None and job.main.id != old.id, "the new one is promoted")
    assert new.main is not None
    assert new.launches == 2
    await world.until_over()
    assert len(await world.leases()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("step", ["loading", "saving"])
async def test_the_old_machine_destroyed_in_the_console_promotes_the_new_one(world: World, step: str) -> None:
    old = await moving(world)
    await until_step(world, step)
    world.market.destroy(int(old.instance_id or 0), by="console")
    await world.until_over()
    assert len(await world.leases()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("step", ["loading", "saving", "promoted"])
async def test_the_new_machine_lost_on_the_way_costs_no_work(world: World, step: str) -> None:
    old = await moving(world)
    await until_step(world, step)
    new = next(lease for lease in await world.leases() if lease.id != old.id)
    done = world.agents.of(old.instance_id).step
    world.market.set_host(int(new.machine_id), HostState.VANISHED)
    await world.tick(3)
    for machine in world.market.machines.values():  # nothing is cheaper any more
        world.market.set_floor(machine.spec.machine_id, machine.spec.floor)
    job = await world.until(
        lambda job: job.status is JobStatus.RUNNING and job.next is None, "the job works on one machine again"
    )
    await world.tick()
    assert job.main is not None
    assert world.agents.of(job.main.instance_id).step >= done - 300
    await world.until_over()


async def test_a_create_of_the_new_home_with_an_unknown_outcome_delays_the_move_only(world: World) -> None:
    old = await moving(world, lost_answer="effect_then_reset")
    assert world.agents.of(old.instance_id).is_at_work
    job = await world.job()
    assert job.next is not None
    assert job.next.create_unknown
    await until_step(world, "promoted")
    await world.until_over()
    assert len(world.sent("instance.created")) == 2


@pytest.mark.slow
async def test_a_deadline_that_comes_close_moves_to_on_demand(world: World) -> None:
    world.agents.total_steps = 1200
    deadline = LONG_JOB.replace('estimate = "3h"', 'estimate = "1h"') + '[deadline]\nwithin = "100m"\n'
    first = await world.running(deadline)
    assert first.is_spot
    await world.until_checkpoint()
    # The machine is taken away and no other bid is worth making, so ten minutes of the slack go by.
    world.market.add_on_demand(int(first.machine_id), world.instance(first).gpu_ids, 600)
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, machine.spec.on_demand * D("0.95"))
    await world.tick(8, apart_s=60)
    job = await world.until(
        lambda job: job.main is not None and not job.main.is_spot and job.status is JobStatus.RUNNING,
        "it runs on demand",
    )
    assert job.main is not None
    done = await world.until_over()
    assert done.finished_at is not None
    assert done.spec.deadline is not None
    assert done.finished_at <= done.spec.deadline


async def test_cancel_in_the_middle_of_a_move_lets_both_machines_go(world: World) -> None:
    await moving(world)
    await until_step(world, "loading")
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert len(world.sent("instance.destroyed")) == 2


async def test_a_job_that_ends_during_its_move_lets_both_machines_go(world: World) -> None:
    old = await moving(world)
    world.agents.total_steps = world.agents.of(old.instance_id).step + 15
    await world.until_over()
    assert len(world.sent("instance.destroyed")) == 2
