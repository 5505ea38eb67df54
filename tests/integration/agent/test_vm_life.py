"""A virtual machine that works: reboots, notices, the end of its permit."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.host.artifact import host_key, host_source
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot_lab.sandbox.vm.machines import VirtualMachines
from tests.integration.agent.agent_world import JOB, SPEED, World, training, verified
from tests.integration.agent.vm_world import KEY, Vm, a_vm
from tests.patience import eventually

pytestmark = pytest.mark.slow

CALM = 4
"""Market seconds in one: processes and uploads take real ones, and there are 48 to save in."""
LIVELY = 10
"""The same where the agent's own end is waited for, which gives it 90 to save in."""


@pytest.fixture
async def machines(tmp_path: Path, world: World) -> AsyncIterator[VirtualMachines]:
    await world.store.put(host_key(), host_source())
    made = VirtualMachines(tmp_path / "vms")
    try:
        yield made
    finally:
        await made.close()


async def beat(vm: Vm, what: str, wanted: Callable[[Heartbeat], bool]) -> Heartbeat:
    try:
        return await vm.lease.until(what, wanted)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{vm.console()}\n{vm.agent_console()}") from None


def is_at_work(told: Heartbeat) -> bool:
    return told.state == "running" and (told.step or 0) > 0


async def test_a_reboot_resumes_the_same_run(world: World, machines: VirtualMachines) -> None:
    """The user data does not run again: the unit starts the container that is there, on the disk that was kept."""
    vm = await a_vm(world, machines, training(2_000_000), speed=SPEED, checkpoint_interval_s=30)
    vm.boot()
    first = await beat(vm, "saved", lambda told: (told.last_checkpoint or 0) >= 1)
    machines.kill(KEY)
    await machines.settle()
    (machines.root(KEY) / "workspace-of-the-host").mkdir()
    await vm.lease.order(restore=await verified(world.store, vm.lease.lease_id, first.last_checkpoint or 0))
    vm.boot()
    again = await beat(vm, "at work again", lambda told: told.boot == 2 and is_at_work(told))
    assert again.run_epoch == first.run_epoch
    saved = await verified_manifest(world.store, AgentUnpacker(), JOB, vm.lease.lease_id, first.last_checkpoint or 0)
    assert saved is not None
    assert (again.step or 0) >= (saved.step or 0) > 0
    report = await vm.until_reported(lambda told: told.boot == 2 and told.state == "running", "up")
    assert report.fault == ""
    assert vm.console().count("Downloading") == 0


async def test_a_notice_that_is_withdrawn_costs_one_checkpoint_and_no_restart(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=CALM, checkpoint_interval_s=100_000)
    vm.boot()
    before = await beat(vm, "at work", is_at_work)
    assert before.last_checkpoint is None
    machines.give_notice(KEY, "STATUS_PREEMPTING", "Preempting", 3000)
    noticed = await beat(vm, "the notice is known", lambda told: told.notice is not None)
    assert noticed.notice is not None
    assert noticed.notice.kind == "preempt"
    saved = await beat(vm, "it is saved", lambda told: told.last_checkpoint is not None)
    machines.withdraw_notice(KEY)
    after = await beat(vm, "it goes on", lambda told: told.notice is None and (told.step or 0) > (saved.step or 0))
    assert (after.boot, after.state, after.last_checkpoint) == (1, "running", saved.last_checkpoint)
    assert vm.agent_console().count("agent started") == 1
    # Another one is another one.
    machines.give_notice(KEY, "STATUS_RELOCATING", "Relocating", 3000)
    again = await beat(vm, "saved again", lambda told: told.last_checkpoint == (saved.last_checkpoint or 0) + 1)
    assert again.notice is not None
    assert again.notice.kind == "relocate"


async def test_within_a_hard_notice_the_work_is_saved(world: World, machines: VirtualMachines) -> None:
    """The machine shuts down as the market says: units first, docker after."""
    vm = await a_vm(world, machines, training(2_000_000), speed=CALM, checkpoint_interval_s=100_000)
    vm.boot()
    working = await beat(vm, "at work", is_at_work)
    machines.shut_down(KEY)
    await vm.until_off("it shuts down")
    saved = await vm.lease.heartbeat()
    assert saved is not None
    manifest = world.store.root / "jobs" / JOB / vm.lease.lease_id / "ckpt/0/manifest.json"
    assert manifest.exists(), f"{vm.console()}\n{vm.agent_console()}"
    restore = await verified(world.store, vm.lease.lease_id, 0)
    await vm.lease.order(restore=restore)
    vm.boot()
    again = await beat(vm, "at work again", lambda told: told.boot == 2 and is_at_work(told))
    assert (again.step or 0) >= (working.step or 0)


async def test_a_notice_that_runs_out_stops_the_container_and_a_late_withdrawal_starts_it_again(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=CALM, checkpoint_interval_s=100_000)
    vm.boot()
    await beat(vm, "at work", is_at_work)
    machines.give_notice(KEY, "STATUS_PREEMPTING", "Preempting", 60)
    await eventually(lambda: "quit" in vm.agent_console() or not vm.is_container_running(), "stopped")
    await eventually(lambda: not vm.is_container_running(), "stopped")
    machines.withdraw_notice(KEY)
    again = await beat(vm, "at work again", lambda told: told.boot == 2 and is_at_work(told))
    assert again.last_checkpoint is not None
    assert (await vm.report()) is not None


async def test_without_a_permit_it_switches_itself_off(world: World, machines: VirtualMachines) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=LIVELY)
    vm.boot()
    await beat(vm, "at work", is_at_work)
    await vm.lease.let_go(permit_ttl_s=10)
    await vm.until_off("it switches off")
    assert "its agent wishes to go" in vm.console()
    assert world.market_calls == [], "no key of the market is there"


async def test_a_machine_whose_container_cannot_go_by_its_permit_switches_itself_off(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(10), speed=SPEED, start="exec sleep 600")
    vm.boot()
    await vm.until_reported(lambda told: told.state == "running", "up")
    await vm.lease.let_go()
    await vm.until_off("it switches off")
    assert "its permit has expired" in vm.console()


async def test_a_machine_of_another_lease_keeps_the_image_and_no_container(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=SPEED)
    vm.boot()
    await beat(vm, "at work", is_at_work)
    assert vm.lease.host is not None
    machines.kill(KEY)
    await machines.settle()
    await vm.lease.order(host=dataclasses.replace(vm.lease.host, container="ap-another"))
    vm.boot(pull="missing")
    await vm.until_reported(lambda told: told.boot == 2 and told.state == "running", "up, without a pull")
    assert [path.name for path in vm.container.parent.iterdir()] == ["ap-another"]
