"""What a tick reads of the ledger: open jobs once, and again only where somebody has written meanwhile."""

from __future__ import annotations

import pytest

from autopilot.domain.instance import Instance
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot_lab.memory_store.jobs import MemoryJobs
from tests.integration.engine.engine_world import World


@pytest.mark.slow
async def test_a_quiet_tick_reads_open_jobs_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.agents.total_steps = 1000
    await world.running()
    await world.tick(3)
    reads, list_open = 0, MemoryJobs.list_open

    async def count(self: MemoryJobs) -> tuple[Job, ...]:
        nonlocal reads
        reads += 1
        return await list_open(self)

    monkeypatch.setattr(MemoryJobs, "list_open", count)
    await world.tick(4)
    assert reads == 4
    await world.until_over()
    assert reads > 4


async def test_a_cancel_while_the_markets_are_read_is_not_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await world.running()
    await world.tick(3)
    read = world.provider.instances

    async def cancel_meanwhile() -> tuple[Instance, ...]:
        monkeypatch.undo()
        await world.jobs.cancel("train")
        return await read()

    monkeypatch.setattr(world.provider, "instances", cancel_meanwhile)
    await world.tick()
    job = await world.job()
    assert (job.status, job.reason) == (JobStatus.CANCELLING, Reason.USER_CANCELLED)
    await world.until_over(JobStatus.CANCELLED)
    assert world.instance(lease).destroyed_at is not None
