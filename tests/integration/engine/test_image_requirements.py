"""D7: hosts on which an image would not start are not rented, and those that it needs no more of are kept."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from autopilot.api.submissions import Sent
from autopilot.domain.errors import UserError
from autopilot.images.reader import RegistryReader
from autopilot_lab.sandbox.catalogue import default_catalogue
from tests.builders import START, D
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.registry import Content, TokenRegistry, token_registry

REQUIRES = ["CUDA_VERSION=12.8.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=tesla,driver>=535,driver<536"]


def two_hosts() -> tuple[Any, ...]:
    """The cheap one has an old driver."""
    kind = next(each for each in default_catalogue(7, START) if each.gpu_name == "RTX 4090" and each.verified)
    kind = replace(kind, gpu_count=1, cpu_cores=32, cpu_ram_mb=128_807, disk_gb=500.0)
    return (
        replace(kind, machine_id=51_001, floor=D("0.20"), cuda_max_good=12.2, driver_version="535.183.01"),
        replace(kind, machine_id=51_002, floor=D("0.30"), cuda_max_good=13.0, driver_version="580.95.05"),
    )


async def rented(world: World, registry: TokenRegistry, env: list[str]) -> str:
    """The machine that a job with an image of that environment gets."""
    registry.content.add_image("1", Env=env)
    await world.submit(job_with(registry))
    await world.tick(2)
    main = (await world.job()).main
    assert main is not None
    return main.machine_id


def ask(registry: TokenRegistry) -> RegistryReader:
    return RegistryReader([registry.place])


async def test_a_host_whose_driver_is_too_old_for_the_image_is_left_out(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        await world.restart()
        assert await rented(world, registry, REQUIRES) == "51002"


async def test_where_nothing_requires_more_the_cheap_host_is_kept(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        await world.restart()
        assert await rented(world, registry, ["PYTORCH_VERSION=2.9", "NV_CUDA_LIB_VERSION=12.8"]) == "51001"


async def test_a_daemon_that_starts_again_knows_it_before_it_rents(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        await world.restart()
        registry.content.add_image("1", Env=REQUIRES)
        await world.submit(job_with(registry))
        world.images = ask(registry)
        await world.restart()
        await world.tick(2)
        main = (await world.job()).main
        assert main is not None
        assert main.machine_id == "51002"


async def test_while_its_registry_is_silent_nothing_is_left_out(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        registry.is_public = False
        await world.restart()
        assert await rented(world, registry, REQUIRES) == "51001"


async def test_the_plan_says_how_many_hosts_the_image_leaves_out(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        await world.restart()
        await world.tick()
        registry.content.add_image("1", Env=REQUIRES)
        notes = await plan(world, registry)
        said = "left out: 1 with an older driver: the nearest supports CUDA 12.2, the image requires 12.8"
        assert said in notes


async def test_an_image_for_another_processor_alone_is_refused_with_what_would_do(tmp_path: Path) -> None:
    async with token_registry(Content()) as registry, a_world(tmp_path, machines=two_hosts()) as world:
        world.images = ask(registry)
        await world.restart()
        await world.tick()
        registry.content.add_image("1", "arm64")
        said = r"is built for arm64 alone, and the machines have amd64: build it for linux/amd64"
        with pytest.raises(UserError, match=said):
            await world.submit(job_with(registry))


def job_with(registry: TokenRegistry) -> str:
    return JOB.replace("some/image:1", f"{registry.place}/me/train:1")


async def plan(world: World, registry: TokenRegistry) -> list[str]:
    sent = [Sent(job_with(registry), "job.toml")]
    answer: Any = await world.jobs.submissions.submit(sent, itemgetter(0), dry_run=True, owner=1000)
    notes: list[str] = answer["plan"]["notes"]
    return notes
