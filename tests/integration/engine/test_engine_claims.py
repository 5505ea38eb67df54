"""What an agent says is a claim: what does not hold, or belongs to another run, changes nothing."""

from __future__ import annotations

import pytest
from engine_world import World

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.mailbox.keys import exit_key, heartbeat_key, manifest_key, part_key
from autopilot.mailbox.report_shapes import ExitRecord, Manifest
from tests.checkpoint_data import a_part, an_index

DATA = an_index("a model")


async def put_checkpoint(world: World, lease: Lease, number: int, run_epoch: int, stored: bytes, step: int) -> None:
    assert lease.job_id is not None
    part = a_part(0, DATA)
    await world.blobs.put(part_key(lease.job_id, lease.id, number, 0), stored)
    manifest = Manifest(run_epoch, number, (part,), step)
    await world.blobs.put(manifest_key(lease.job_id, lease.id, number), manifest.to_json())


@pytest.mark.parametrize(
    ("run_epoch", "stored"),
    [
        pytest.param(2, DATA, id="of-another-run"),
        pytest.param(1, b"not it!", id="torn"),
        pytest.param(1, b"", id="cut"),
    ],
)
async def test_a_checkpoint_that_does_not_hold_is_not_taken(world: World, run_epoch: int, stored: bytes) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    number = world.agents.of(lease.instance_id).next_checkpoint
    world.agents.of(lease.instance_id).next_checkpoint += 1
    await put_checkpoint(world, lease, number, run_epoch, stored, step=999_999)
    await world.tick(8)
    job = await world.job()
    assert job.checkpoint is not None
    assert job.checkpoint.step < 999_999
    assert job.checkpoint.number > number, "the good ones after it are not taken either"
    await world.until_over()


async def test_a_checkpoint_that_holds_is_taken(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    number = world.agents.of(lease.instance_id).next_checkpoint
    world.agents.of(lease.instance_id).next_checkpoint += 1
    await put_checkpoint(world, lease, number, 1, DATA, step=50)
    job = await world.until(lambda job: job.checkpoint is not None and job.checkpoint.number >= number, "it is taken")
    assert job.checkpoint is not None
    await world.until_over()


async def test_the_end_of_another_run_does_not_end_the_job(world: World) -> None:
    lease = await world.running()
    assert lease.job_id is not None
    await world.blobs.put(exit_key(lease.job_id, lease.id), ExitRecord(run_epoch=7, exit_code=0).to_json())
    await world.tick(4)
    assert (await world.job()).status is JobStatus.RUNNING
    await world.until_over()


async def test_nonsense_in_the_mailbox_stops_nothing(world: World) -> None:
    lease = await world.running()
    assert lease.job_id is not None
    world.agents.deaf.add(lease.id)
    for nonsense in (b"", b"[]", b'{"v": 1}', b"\xff" * 50, b'{"v": 1, "boot": 1e400}', b"9" * 2_000_000):
        await world.blobs.put(heartbeat_key(lease.job_id, lease.id), nonsense)
        await world.blobs.put(exit_key(lease.job_id, lease.id), nonsense)
        await world.tick()
    assert (await world.job()).status is JobStatus.RUNNING
    world.agents.deaf.clear()
    await world.until_over()
