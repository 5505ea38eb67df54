"""The check on arrival by the agent itself: before anything is fetched, once, and told with every heartbeat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.arrival import Arrival
from autopilot.host.artifact import host_key, host_source
from autopilot.mailbox.keys import arrival_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import CheckWish
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot_lab.sandbox.machine_traits import MachineTraits, keep_traits
from autopilot_lab.sandbox.vm.machines import VirtualMachines
from tests.integration.agent.agent_world import JOB, SPEED, Host, World
from tests.integration.agent.vm_world import a_vm

CHECK = CheckWish(60, ("127.0.0.1:1",))
MIB = 1 << 20


def with_traits(host: Host, traits: MachineTraits) -> None:
    programs = host.root.parent / f"{host.root.name}-bin"
    traits.write_program(programs)
    if not host.env["PATH"].startswith(str(programs)):
        host.env["PATH"] = f"{programs}:{host.env['PATH']}"


def found(beat: Heartbeat) -> Arrival | None:
    return beat.readings.arrival if beat.readings else None


@pytest.mark.slow
async def test_it_is_made_before_the_work_and_not_again_on_a_resume(world: World) -> None:
    lease = await world.lease(
        "a", Work(run="exec sleep 1000", setup="nvidia-smi >/dev/null && touch set-up"), check=CHECK
    )
    host = world.host(lease)
    with_traits(host, MachineTraits(gpus=2, used_mib=9000))
    host.start()
    beat = await lease.until("at work", lambda beat: beat.state == "running")
    arrival = found(beat)
    assert arrival is not None
    assert [(gpu.used, gpu.total) for gpu in arrival.gpus or ()] == [(9000 * MIB, 24564 * MIB)] * 2
    assert arrival.unreachable == ("127.0.0.1:1",)
    assert arrival.upload_mbps
    assert arrival.download_mbps
    assert await world.store.get(arrival_key(JOB, "a"))
    with_traits(host, MachineTraits(gpus=1))
    host.kill()
    host.start()
    resumed = await lease.until("at work again", lambda beat: beat.boot == 2 and beat.state == "running")
    assert found(resumed) == arrival


async def test_without_an_order_none_is_made(world: World) -> None:
    lease = await world.lease("a", Work(run="exec sleep 1000"))
    world.host(lease).start()
    assert found(await lease.until("at work", lambda beat: beat.state == "running")) is None


@pytest.fixture
async def machines(tmp_path: Path, world: World) -> AsyncIterator[VirtualMachines]:
    await world.store.put(host_key(), host_source())
    made = VirtualMachines(tmp_path / "vms")
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.slow
async def test_in_the_container_of_a_virtual_machine(world: World, machines: VirtualMachines, tmp_path: Path) -> None:
    keep_traits(tmp_path, MachineTraits(gpus=2, throttle="0x0000000000000040"))
    vm = await a_vm(world, machines, Work(run="exec sleep 1000"), speed=SPEED, check=CHECK)
    vm.boot()
    beat = await vm.lease.until("at work", lambda beat: beat.state == "running")
    arrival = found(beat)
    assert arrival is not None
    assert [gpu.slowed for gpu in arrival.gpus or ()] == [True, True]
