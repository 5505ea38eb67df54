"""A virtual machine from its user data to its agent's first heartbeat, and what goes wrong on that way."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from autopilot.host.artifact import host_key, host_source
from autopilot_lab.sandbox.host_traits import Boot, HostTraits, Truth
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.vm.machines import VirtualMachines
from tests.integration.agent.agent_world import SPEED, World, training
from tests.integration.agent.vm_world import KEY, Vm, a_vm

pytestmark = pytest.mark.slow

PASSWORD = "the-registry-s-password"
PRIVATE = (PrivateImage("ghcr.io/autopilot/demo", "me", PASSWORD),)


@pytest.fixture
async def machines(tmp_path: Path, world: World) -> AsyncIterator[VirtualMachines]:
    await world.store.put(host_key(), host_source())
    made = VirtualMachines(tmp_path / "vms")
    try:
        yield made
    finally:
        await made.close()


async def at_work(vm: Vm) -> None:
    try:
        await vm.lease.until("at work", lambda beat: beat.state == "running" and (beat.step or 0) > 0)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{vm.console()}") from None


async def test_from_the_first_boot_to_the_agent_at_work(world: World, machines: VirtualMachines) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=SPEED, env={"PLANTED": "seen"})
    vm.boot()
    await at_work(vm)
    report = await vm.until_reported(lambda told: told.state == "running", "up")
    assert (report.boot, report.fault) == (1, "")
    settings = (machines.root(KEY) / "etc/docker/daemon.json").read_text()
    assert "cgroupfs" in settings
    assert not vm.ended


async def test_two_boots_at_once_make_one_container(world: World, machines: VirtualMachines) -> None:
    """The user data run twice, and the program started beside the service."""
    vm = await a_vm(world, machines, training(2_000_000), speed=SPEED)
    vm.boot()
    await at_work(vm)
    again = await machines.run_inside(KEY, ["sh", str(machines.root(KEY) / "var/lib/cloud/user-data")])
    assert again == (0, b"")
    program = str(machines.root(KEY) / "var/lib/autopilot-host/host.pyz")
    code, said = await machines.run_inside(KEY, ["python3", program, "run"])
    assert (code, said) == (0, b"autopilot: the host program already runs on this machine\n")
    assert [path.name for path in vm.container.parent.iterdir()] == [vm.container.name]
    assert len([None for line in vm.agent_console().splitlines() if "agent started" in line]) == 1


async def test_a_private_image_is_pulled_and_no_secret_is_left_behind(world: World, machines: VirtualMachines) -> None:
    work = training(2_000_000, setup='test -n "$TOKEN"')
    work = dataclasses.replace(work, env={"TOKEN": "the-user-s-token"})
    vm = await a_vm(world, machines, work, speed=SPEED, needs_login=True, env={"FROM_FILE": "of-the-env-file"})
    vm.boot(private=PRIVATE)
    await vm.until_reported(lambda told: told.wants_login, "it asks for the login")
    await vm.give_login("me", PASSWORD)
    await at_work(vm)
    report = await vm.until_reported(lambda told: told.state == "running", "up")
    assert not report.wants_login
    assert [vm.holds(secret) for secret in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()[:-2])] == [[], []]
    assert vm.holds("the-user-s-token") == []
    assert {path.name for path in vm.holds("of-the-env-file")} == {"env.json"}, "in memory, and nowhere else"
    assert vm.holds("AUTOPILOT_ENV_FILE"), "the search finds what is there"


async def test_a_registry_that_refuses_is_reported_and_the_machine_goes(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(10), speed=SPEED, needs_login=True)
    vm.boot(private=PRIVATE)
    await vm.until_reported(lambda told: told.wants_login, "it asks for the login")
    await vm.give_login("me", "wrong")
    report = await vm.until_reported(lambda told: told.state == "failed", "refused")
    assert report.fault == "registry_denied"
    assert "denied" in report.detail
    await vm.until_off("it switches off")
    assert vm.ended == [0]


@pytest.mark.parametrize(
    ("faults", "terms", "fault", "words"),
    [
        ({"pull": "hang"}, {"boot_s": 240}, "boot_too_slow", ""),
        ({"pull": "missing"}, {}, "image_missing", "manifest unknown"),
        ({"pull": "full"}, {}, "disk_full", "no space left"),
        ({"gpus": "1"}, {}, "no_gpu", "1 GPUs of 2"),
        ({"docker": "absent", "apt": "fail"}, {}, "no_docker", "Unable to locate"),
        ({"docker": "absent", "apt": "hang"}, {}, "no_docker", "took longer"),
        ({"start": "refuse"}, {}, "container_refused", "could not select device driver"),
    ],
    ids=("hung", "missing", "full", "gpus", "apt fails", "apt hangs", "refused"),
)
async def test_what_fails_is_reported_and_the_machine_goes(
    world: World,
    machines: VirtualMachines,
    faults: dict[str, Any],
    terms: dict[str, int],
    fault: str,
    words: str,
) -> None:
    vm = await a_vm(world, machines, training(10), speed=SPEED, **terms)
    vm.boot(**faults)
    report = await vm.until_reported(lambda told: told.state == "failed", fault)
    assert report.fault == fault
    assert words in report.detail
    await vm.until_off("it switches off")


@pytest.mark.parametrize(
    ("boots", "fault", "words"),
    [
        (Boot.FULL_DISK, "disk_full", "no space left on device"),
        (Boot.NO_RUNTIME, "container_refused", "OCI runtime create failed"),
    ],
)
async def test_what_its_host_refuses_is_reported_and_the_machine_goes(
    world: World, machines: VirtualMachines, boots: Boot, fault: str, words: str
) -> None:
    vm = await a_vm(world, machines, training(10), speed=SPEED)
    vm.boot(host=HostTraits(truth=Truth(boots)))
    report = await vm.until_reported(lambda told: told.state == "failed", fault)
    assert report.fault == fault
    assert words in report.detail
    await vm.until_off("it switches off")


@pytest.mark.parametrize("faults", [{"docker": "absent"}, {"docker": "inactive"}, {"pull": "unavailable"}])
async def test_what_is_missing_is_mended(world: World, machines: VirtualMachines, faults: dict[str, Any]) -> None:
    vm = await a_vm(world, machines, training(2_000_000), speed=SPEED)
    vm.boot(**faults)
    await at_work(vm)


async def test_a_program_with_another_hash_is_refused(world: World, machines: VirtualMachines) -> None:
    """And a machine that has nothing to run for a permit's time switches itself off."""
    vm = await a_vm(world, machines, training(10), speed=300)
    vm.boot(sha256="0" * 64)
    await vm.until_off("it switches off")
    assert "host program refused: wrong SHA-256" in vm.console()
    assert not (machines.root(KEY) / "var/lib/autopilot-host/host.pyz").exists()
    assert await vm.report() is None


async def test_a_container_that_ends_at_once_is_reported_with_its_last_words(
    world: World, machines: VirtualMachines
) -> None:
    vm = await a_vm(world, machines, training(10), speed=SPEED, start="echo no Python here >&2; exit 3")
    vm.boot()
    report = await vm.until_reported(lambda told: told.fault == "container_exit", "it ended")
    assert report.detail == "code 3: no Python here"
    await vm.until_reported(lambda told: told.seq >= report.seq + 2, "it was started again, and ended again")
