"""What a market says of an image that does not start, on machines that markets start themselves: who must act."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.policy.failed_starts import FIRST_PAUSE
from autopilot.ports.provider import Provider
from autopilot.providers.runpod import plugin
from autopilot_lab.sandbox.image_traits import LIMITED, NO_PYTHON, NOT_GIVEN, OTHER_ARCH, TOO_LARGE, WRONG_TAG
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.patience import eventually


class RunpodWorld(World):
    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": "runpod-sandbox-key", "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)


@pytest.fixture(params=[World, RunpodWorld], ids=["vastai", "runpod"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, kind=request.param) as made:
        await made.tick()
        yield made


async def submit(world: World, image: str) -> None:
    await world.submit(JOB.replace("some/image:1", image))


async def said(world: World, name: str) -> list[dict[str, object]]:
    async with world.store.snapshot() as uow:
        records = await uow.events.list_by_job(world.job_id)
    return [dict(each.fields) for each in records if each.name == name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "fault", "words"),
    [(WRONG_TAG, "image_missing", "manifest unknown"), (OTHER_ARCH, "image_arch", "no matching manifest")],
)
async def test_an_image_that_starts_nowhere_ends_the_job_with_its_first_machine(
    world: World, image: str, fault: str, words: str
) -> None:
    await submit(world, image)
    began = world.clock.now()
    job = await world.until(lambda job: job.status is JobStatus.FAILED, "its end")
    assert (job.reason, job.launches) == (Reason.IMAGE_UNUSABLE, 1), await world.story()
    (lease, *_) = await world.leases()
    assert job.finished_at is not None
    assert lease.acquired_at is not None
    assert job.finished_at - lease.acquired_at <= timedelta(minutes=2), world.clock.now() - began
    (failed,) = await said(world, "lease.boot_failed")
    assert failed["fault"] == fault
    assert words in str(failed["message"])
    (ended,) = await said(world, "job.failed")
    assert (ended["fault"], words in str(ended["message"])) == (fault, True)
    await world.tick(20, apart_s=60)
    assert {lease.is_over for lease in await world.leases()} == {True}
    assert (await world.job()).launches == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [World, RunpodWorld], ids=["vastai", "runpod"])
async def test_an_image_without_python_ends_the_job_within_two_minutes_of_its_first_machine(
    tmp_path: Path, kind: type[World]
) -> None:
    """D5, with the containers as processes. Only the container's own log has the word of it."""
    async with a_world(tmp_path, kind=kind, real_processes=True) as world:
        world.agents.act = _nothing  # type: ignore[method-assign] # no agent ever starts
        await world.tick()
        await submit(world, NO_PYTHON)

        await world.until(lambda job: job.status is JobStatus.FAILED or _runs(job), "a machine")
        # The processes take real time, on a busy computer much: the market's clock stands still meanwhile.
        assert await eventually(lambda: _has_said(tmp_path, "no Python 3.8"), "the container's last word")
        job = await world.until(lambda job: job.status is JobStatus.FAILED, "its end")
        assert (job.reason, job.launches) == (Reason.IMAGE_UNUSABLE, 1), await world.story()
        (lease, *_) = await world.leases()
        assert lease.acquired_at is not None
        assert job.finished_at is not None
        assert job.finished_at - lease.acquired_at <= timedelta(minutes=2), await world.story()
        (ended,) = await said(world, "job.failed")
        assert ended["fault"] == "no_python"
        assert "no Python 3.8" in str(ended["message"])
        await world.tick(10, apart_s=60)
        assert {lease.is_over for lease in await world.leases()} == {True}


def _runs(job: Job) -> bool:
    return job.main is not None and job.main.observed.running_since is not None


def _has_said(root: Path, words: str) -> bool:
    return any(words in path.read_text(errors="replace") for path in root.rglob("console.log"))


async def _nothing(now: datetime) -> None:
    """In the place of the agents."""


@pytest.mark.slow
async def test_a_pull_limit_is_waited_for_and_never_held_against_the_job(world: World) -> None:
    await submit(world, LIMITED)
    job = await world.until(lambda job: bool(job.failed_starts) and job.failed_starts[-1].is_over, "a limit")
    await world.tick(3)
    job = await world.job()
    assert (job.status, job.reason, job.launches) == (JobStatus.PENDING, Reason.PULL_LIMIT, 1), await world.story()
    limited_at = job.failed_starts[-1].at
    while world.clock.now() < limited_at + FIRST_PAUSE:
        assert (await world.job()).launches == 1
        await world.tick()
    job = await world.until(lambda job: job.launches == 2, "another try")
    await world.tick(240, apart_s=60)
    job = await world.job()
    assert job.status is not JobStatus.FAILED
    assert 3 <= job.launches <= 6, "pauses grow"


async def test_a_full_disk_is_its_host_s_fault(world: World) -> None:
    await submit(world, TOO_LARGE)
    job = await world.until(lambda job: job.launches == 2, "another host")
    assert [(start.fault, start.is_over) for start in job.failed_starts] == [("disk_full", True)]
    first, second = await world.leases()
    assert first.reason is Reason.STUCK_LOADING
    assert (first.machine_id, first.host_id) != (second.machine_id, second.host_id)
    assert first.ending.requested_at is not None
    assert first.acquired_at is not None
    assert first.ending.requested_at - first.acquired_at < timedelta(minutes=2)
    assert "no space left on device" in str((await said(world, "lease.boot_failed"))[0]["message"])


async def test_an_image_that_is_not_given_out_parks_the_job(world: World) -> None:
    await submit(world, NOT_GIVEN)
    job = await world.until(lambda job: job.status is JobStatus.PARKED, "a word on the login")
    assert (job.reason, job.launches) == (Reason.IMAGE_LOGIN_REFUSED, 1)
