"""A run that fails soon after a restore: the next one gets the checkpoint before, and nothing is thrown away for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.domain import events as e
from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.engine.checkpoint_retention import CheckpointRetention, keep_of
from autopilot.engine.event_log import EventLog
from autopilot.engine.older_checkpoints import step_back
from tests.builders import a_checkpoint
from tests.integration.engine.engine_world import World
from tests.integration.engine.test_checkpoint_retention import JOB, put_ledger
from tests.leases import change_lease
from tests.store_records import a_lease

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


async def begin(world: World, checkpoints: list[Checkpoint], run_epoch: int, work: timedelta) -> Job:
    """The job at work for so long since it began from the newest of them."""
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(JOB)
    assert job is not None
    lease = change_lease(a_lease(id="lease-9", label="label-9"), machine_id="z", state=LeaseState.ACTIVE)
    lease = replace(lease, orders=replace(lease.orders, run_epoch=run_epoch))
    done = checkpoints[-1].work_done + work
    return replace(job, status=JobStatus.RUNNING, leases=(lease,), run_epoch=run_epoch, work_done=done)


async def fail(world: World, job: Job, **of_event: object) -> Job:
    event_log = EventLog(job)
    began_from = job.checkpoint.age if job.checkpoint else None
    event = e.RunExited("lease-9", job.run_epoch, 1, world.clock.now(), has_saved=False, began_from=began_from)
    event_log.exits.append(replace(event, **of_event))  # type: ignore[arg-type]
    async with world.store.transaction() as uow:
        await step_back(uow, event_log, world.clock.now())
    return event_log.job


async def in_play(world: World) -> list[int]:
    async with world.store.snapshot() as uow:
        return [each.number for each in await uow.checkpoints.list_by_job(JOB) if not each.is_set_aside]


async def in_ledger(world: World) -> list[int]:
    async with world.store.snapshot() as uow:
        return sorted(each.number for each in await uow.checkpoints.list_by_job(JOB))


async def test_it_steps_back_one_by_one_down_to_the_first_and_deletes_none(world: World) -> None:
    checkpoints = await put_ledger(world, ["a", "b"], "0011")
    job = await begin(world, checkpoints, 5, 10 * SECOND)
    for left in ([2, 1, 0], [1, 0], [0], [0]):
        job = await fail(world, job)
        assert await in_play(world) == left
        assert job.checkpoint is not None
        assert job.checkpoint.number == left[0]
        async with world.store.snapshot() as uow:
            kept = await uow.jobs.find(JOB)
        assert kept is not None
        assert kept.checkpoint == job.checkpoint, "another daemon goes on from the same one"
    await CheckpointRetention(world.store, world.blobs, AgentUnpacker()).delete_surplus([job])
    assert "checkpoint.set_aside" in await world.events()
    assert {3, 2, 1, 0} == set(await in_ledger(world)), "none of the newer is deleted before the older has done better"


@pytest.mark.parametrize(
    "why",
    [
        pytest.param({"exit_code": 0}, id="it-ended-well"),
        pytest.param({"has_saved": True}, id="it-had-saved"),
        pytest.param({"began_from": (1, 0)}, id="it-began-from-another"),
        pytest.param({"began_from": None}, id="it-began-from-files-that-lay-there"),
        pytest.param({"is_of_host": True}, id="its-machine-failed"),
        pytest.param({"is_of_command": False}, id="its-setup-failed"),
    ],
)
async def test_what_is_not_the_checkpoints_fault_sets_nothing_aside(world: World, why: dict[str, object]) -> None:
    checkpoints = await put_ledger(world, ["a", "b"], "0011")
    await fail(world, await begin(world, checkpoints, 5, 10 * SECOND), **why)
    assert await in_play(world) == [3, 2, 1, 0]


async def test_what_fails_after_an_hour_of_work_does_not_blame_what_it_began_from(world: World) -> None:
    checkpoints = await put_ledger(world, ["a", "b"], "0011")
    await fail(world, await begin(world, checkpoints, 5, HOUR))
    assert await in_play(world) == [3, 2, 1, 0]


async def test_of_an_agent_of_an_older_version_the_ledger_says_whether_it_had_saved(world: World) -> None:
    checkpoints = await put_ledger(world, ["a", "b"], "0011")
    job = await begin(world, checkpoints, 5, 10 * SECOND)
    await fail(world, job, has_saved=None, began_from=None)
    assert await in_play(world) == [2, 1, 0]


async def test_a_suspect_one_never_goes_before_a_whole_one_and_gives_way_to_nothing(world: World) -> None:
    (whole,) = await put_ledger(world, ["a"], "0")
    lease = a_lease(id="lease-0", label="label-0")
    suspect = replace(a_checkpoint(lease, 7, job_id=JOB, run_epoch=2), is_suspect=True)
    async with world.store.transaction() as uow:
        await uow.checkpoints.add(suspect)
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(JOB)
    assert job is not None
    assert job.checkpoint == whole
    async with world.store.transaction() as uow:
        await uow.checkpoints.remove(whole)
    job = await begin(world, [suspect], 3, SECOND)
    assert job.checkpoint == suspect, "without a whole one it is better than nothing"
    assert (await fail(world, job)).checkpoint is None, "once it has failed the job restarts"
    assert await in_ledger(world) == [7]


def test_what_is_set_aside_stays_until_there_is_a_newer_one() -> None:
    lease = a_lease()
    first, passed, newer = (a_checkpoint(lease, number, job_id=JOB, run_epoch=number) for number in (1, 2, 3))
    passed = replace(passed, is_set_aside=True)
    assert keep_of([first, passed], 2, {}) == [first, passed]
    assert keep_of([newer, first, passed], 2, {}) == [newer, first]
