"""What a job asks of the machine: no launch goes to a host that it excludes, at first, after a loss or on a move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Why
from autopilot.domain.job import JobStatus
from autopilot.words import reasons
from autopilot_lab.sandbox.market.machines import Machine
from tests.integration.engine.engine_world import JOB, D, World

OLD: dict[str, Any] = {"cuda_max_good": 12.2, "driver_version": "535.86.05"}
LONG = JOB.replace('estimate = "10m"', 'estimate = "3h"')


def asking(*lines: str, job: str = JOB) -> str:
    return job.replace("[resources]\n", "[resources]\n" + "\n".join(lines) + "\n")


def machines(world: World) -> list[Machine]:
    """Those with one RTX 4090 or more that a job may be on."""
    return [each for each in world.market.machines.values() if each.spec.gpu_name == "RTX 4090" and each.spec.verified]


def spoil(world: World, kept: int, **traits: Any) -> set[int]:
    """All but so many get other traits, and are the cheapest by far. Returns those that are spoilt."""
    spoilt = machines(world)[kept:]
    for machine in spoilt:
        machine.spec = replace(machine.spec, **traits)
        world.market.set_floor(machine.spec.machine_id, D("0.020"))
    return {machine.spec.machine_id for machine in spoilt}


async def rented_on(world: World) -> set[int]:
    return {int(lease.machine_id) for lease in await world.leases()}


HOSTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ('cuda = "12.8"', OLD),
    ('driver = "550"', OLD),
    ("cpus = 16", {"cpu_cores": 2}),
    ('ram = "64GB"', {"cpu_ram_mb": 16_000}),
    ('disk_speed = "1GB/s"', {"disk_bw": 200.0}),
    ('download = "300Mbps"', {"inet_down_mbps": 80.0}),
    ('upload = "200Mbps"', {"inet_up_mbps": 30.0}),
    ("reliability = 0.97", {"reliability": 0.96}),
    ('region = "eu | north-america"', {"geolocation": "Somewhere, CN"}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "traits"), HOSTS, ids=[line for line, _ in HOSTS])
async def test_no_launch_goes_to_a_host_that_a_condition_excludes(
    world: World, line: str, traits: dict[str, Any]
) -> None:
    for machine in machines(world):
        machine.spec = replace(machine.spec, geolocation="Quebec, CA", reliability=0.99)
    excluded = spoil(world, 2, **traits)
    assert excluded
    await world.running(asking(line))
    lease = await world.until_checkpoint()
    world.rival(lease, "5")
    await world.until(lambda job: job.launches == 2, "another machine")
    await world.until_over()
    assert not await rented_on(world) & excluded


async def test_memory_is_held_against_the_share_of_the_rented_gpus(world: World) -> None:
    """The market's filter knows the whole machine's alone."""
    shared = {machine.spec.machine_id for machine in machines(world) if machine.spec.gpu_count > 1}
    assert shared
    for machine in machines(world):
        machine.spec = replace(machine.spec, cpu_ram_mb=80_000)
        if machine.spec.machine_id in shared:
            world.market.set_floor(machine.spec.machine_id, D("0.020"))
    await world.running(asking('ram = "64GB"'))
    assert not await rented_on(world) & shared


async def test_without_the_condition_the_same_hosts_are_taken(world: World) -> None:
    excluded = spoil(world, 2, **OLD)
    await world.running()
    assert await rented_on(world) <= excluded


async def test_hosts_that_minor_version_compatibility_allows_are_kept(world: World) -> None:
    """A program of CUDA 12.x runs on every driver from 525 on."""
    allowed = spoil(world, 2, **OLD)
    await world.running(asking('cuda = "12"'))
    assert await rented_on(world) <= allowed


async def test_a_cheaper_host_that_does_not_fit_is_no_reason_to_move(world: World) -> None:
    world.agents.total_steps = 2300
    lease = await world.running(asking('cuda = "12.8"', job=LONG))
    for machine in world.market.machines.values():
        if machine.spec.machine_id != int(lease.machine_id):
            machine.spec = replace(machine.spec, **OLD)
            world.market.set_floor(machine.spec.machine_id, D("0.050"))
    world.clock.advance(1800)
    await world.tick(20)
    assert (await world.job()).launches == 1


async def test_where_nothing_fits_plan_and_why_count_and_name_the_nearest(world: World) -> None:
    spoil(world, 0, **OLD)
    near = machines(world)[0]
    near.spec = replace(near.spec, cuda_max_good=12.6, driver_version="560.35.03")
    world.market.set_floor(near.spec.machine_id, D("0.210"))
    await world.submit(asking('cuda = "12.8"'), accept_any=True)
    told = (
        f"{len(machines(world))} with a driver for an older CUDA: the nearest has 12.6 for $0.21/h, the job needs 12.8"
    )
    assert f"left out: {told}" in world.plan["notes"]
    await world.tick()
    assert (await world.job()).status is JobStatus.PENDING
    wait = reasons.tell_wait(from_json(Why, await world.jobs.why(world.job_id, limit=10)).job)
    assert any(told in line for line in wait), wait
    assert any("CUDA 12.8" in line for line in wait if line.startswith("looked for")), wait


async def test_where_some_fit_the_plan_says_what_was_left_out(world: World) -> None:
    excluded = spoil(world, 2, **OLD)
    await world.submit(asking('cuda = "12.8"'))
    assert any(
        note.startswith(f"left out: {len(excluded)} with a driver for an older CUDA: the nearest has 12.2")
        for note in world.plan["notes"]
    ), world.plan["notes"]
