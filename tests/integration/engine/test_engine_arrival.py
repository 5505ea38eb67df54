"""Machines that lack what was rented, runs that are killed for memory, and runs that last too long: by the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot import render
from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Event
from autopilot.domain.arrival import Arrival
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.domain.unfit import MOST_LEFT
from autopilot.ids import UlidIds
from autopilot.mailbox.keys import arrival_key
from autopilot.mailbox.report_shapes import MemoryUse
from autopilot.notices.kinds import NAMES
from autopilot.notices.outbox import Announcer, AnnouncingStore, Subscription
from autopilot.ports.store import Store
from autopilot.words import story
from tests.integration.engine.engine_world import JOB, World, a_world

GB = 10**9
HUNG = Arrival(gpu_fault="nvidia-smi hangs", disk_free=90 * GB)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    def wrap(store: Store) -> Store:
        subscribed = {"ops": Subscription(frozenset(NAMES))}
        return AnnouncingStore(store, Announcer(subscribed, UlidIds(made.clock), str), lambda: None)

    async with a_world(tmp_path, lambda store: store) as made:
        made.wrap = wrap
        await made.restart()
        await made.tick()
        yield made


async def told(world: World) -> str:
    """What people are told of the job, a line for each event."""
    async with world.store.snapshot() as uow:
        records = await uow.events.list_after()
    return "\n".join(story.tell(from_json(Event, render.event(record))) for record in records)


async def test_a_host_whose_driver_hangs_is_left_at_once_and_that_is_said(world: World) -> None:
    world.agents.arrivals = [HUNG]
    await world.submit()
    job = await world.until(lambda job: job.launches == 2, "another machine")
    first, second = await world.leases()
    assert first.reason is Reason.HOST_UNFIT
    assert first.machine_id != second.machine_id
    assert (job.failures, job.fruitless, job.left_for) == (0, 0, ("gpu_fault",))
    assert "the machine lacks what was rented: GPU fault: nvidia-smi hangs; it is left" in await told(world)
    async with world.store.snapshot() as uow:
        (notice,) = await uow.notices.list_due("ops", world.clock.now(), limit=10)
    assert notice.kind == "machine_unfit"
    assert "GPU fault: nvidia-smi hangs. It is given back at once" in notice.text
    await world.until_over(JobStatus.SUCCEEDED)
    await world.until_settled()


async def test_a_check_that_errs_leaves_few_machines_and_the_job_goes_on(world: World) -> None:
    world.agents.arrivals = [HUNG] * 50
    await world.submit()
    job = await world.until_over(JobStatus.SUCCEEDED)
    assert job.launches == MOST_LEFT + 1
    assert "others lacked it too, so the job continues here" in await told(world)
    await world.until_settled()


async def test_a_warning_is_only_said(world: World) -> None:
    world.agents.arrivals = [Arrival(disk_mb_per_s=12.0, clock_off_s=-300.0)]
    lease = await world.running()
    assert "its disk writes 12 MB/s, its clock is 300 s slow" in await told(world)
    assert lease.agent.readings is not None
    assert lease.agent.readings.arrival == Arrival(disk_mb_per_s=12.0, clock_off_s=-300.0)
    await world.restart()
    assert (await world.lease(lease.id)).agent.readings == lease.agent.readings, "the ledger keeps it"


async def test_what_measured_the_store_goes_with_the_machine(world: World) -> None:
    lease = await world.running()
    key = arrival_key(world.job_id, lease.id)
    await world.blobs.put(key, b"measured")
    await world.until_over(JobStatus.SUCCEEDED)
    await world.until_settled()
    await world.tick(2)
    assert await world.blobs.get(key) is None


async def test_after_kills_for_memory_each_machine_has_more_and_the_job_ends_with_the_peak(world: World) -> None:
    rented = (await world.running()).ram_gb
    assert rented is not None
    limit = int(rented * GB)
    world.agents.memory = [MemoryUse(limit - GB, limit)]
    job = await world.until(lambda job: job.failures == 1, "a kill")
    assert job.spec.host.ram_gb is not None
    assert job.spec.host.ram_gb > rented
    assert "killed for memory, at a peak of" in await told(world)
    for _ in range(60):
        await world.tick(apart_s=120)
    job, leases = await world.job(), await world.leases()
    assert leases[0].reason is Reason.OUT_OF_MEMORY
    later = [lease.ram_gb for lease in leases[1:]]
    assert all(ram_gb is not None and ram_gb >= job.spec.host.ram_gb for ram_gb in later if job.spec.host.ram_gb)
    assert job.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)
    assert (job.status is JobStatus.FAILED) is (not later)


@pytest.mark.slow
async def test_a_run_that_lasts_too_long_is_saved_and_ends_the_job(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.running('max_duration = "5m"\n' + JOB)
    job = await world.until_over(JobStatus.FAILED)
    (lease,) = await world.leases()
    assert (job.reason, lease.reason, job.failures) == (Reason.OVER_DURATION, Reason.OVER_DURATION, 0)
    assert job.checkpoint is not None
    assert job.checkpoint.step >= 240, "what it had done is saved"
    await world.until_settled()
