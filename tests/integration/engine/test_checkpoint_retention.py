"""What stays in the store: the newest checkpoints, and every part that one of them names, whoever sent it."""

from __future__ import annotations

import asyncio
import hashlib
import re

from engine_world import World

from autopilot.domain.job import Checkpoint
from autopilot.domain.lease import Lease
from autopilot.engine.checkpoint_retention import CheckpointRetention, Doubt
from autopilot.mailbox.checkpoints import kept_manifest, verified_manifest
from autopilot.mailbox.keys import manifest_key, part_key
from autopilot.mailbox.report_shapes import Manifest, Part


async def parts_in_store(world: World, job_id: str) -> set[str]:
    return {key for key in await world.blobs.keys(f"jobs/{job_id}") if re.search(r"/ckpt/\d+/part-", key)}


async def put_reusing(world: World, lease: Lease, number: int, old: Manifest, step: int) -> None:
    """A checkpoint of one new part and the parts of ``old``, as an agent writes it that has little to send."""
    data = f"changed at step {step}".encode()
    new = Part("part-0", len(data), hashlib.sha256(data).hexdigest())
    assert lease.job_id is not None
    await world.blobs.put(part_key(lease.job_id, lease.id, number, 0), data)
    manifest = Manifest(lease.orders.run_epoch, number, (new, *old.parts), step)
    await world.blobs.put(manifest_key(lease.job_id, lease.id, number), manifest.to_json())


async def test_a_part_lives_as_long_as_a_kept_checkpoint_names_it(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    agent = world.agents.of(lease.instance_id)
    job = await world.job()
    assert job.checkpoint is not None
    base = await kept_manifest(world.blobs, job.id, lease.id, job.checkpoint.number)
    assert base is not None
    shared = set(base.part_keys(job.id, lease.id))
    number = agent.next_checkpoint
    agent.next_checkpoint += 1
    await put_reusing(world, lease, number, base, step=job.checkpoint.step + 1)
    abandoned = part_key(job.id, lease.id, 900, 0)
    await world.blobs.put(abandoned, b"of an upload that is under way")
    stale = part_key(job.id, lease.id, 0, 77)
    await world.blobs.put(stale, b"of an upload that was overtaken")

    seen_shared_kept = False
    for _ in range(40):
        await world.tick(1)
        job = await world.job()
        assert job.checkpoint is not None
        async with world.store.snapshot() as uow:
            kept = await uow.checkpoints.list_by_job(job.id)
        for checkpoint in kept[:2]:
            manifest = await verified_manifest(world.blobs, job.id, checkpoint.lease_id, checkpoint.number)
            assert manifest is not None, "a kept checkpoint has lost a part"
        numbers = {checkpoint.number for checkpoint in kept}
        if number in numbers and base.n not in numbers:
            seen_shared_kept = True
            assert shared <= await parts_in_store(world, job.id)
        if job.checkpoint.number > number + 2:
            break
    assert seen_shared_kept
    left = await parts_in_store(world, job.id)
    assert not shared & left
    assert stale not in left
    assert abandoned in left
    assert await kept_manifest(world.blobs, job.id, lease.id, base.n) is None
    await world.until_over()


async def test_without_the_manifest_of_a_kept_one_nothing_is_deleted(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    job = await world.job()
    assert job.checkpoint is not None
    before = await parts_in_store(world, job.id)
    await world.tick(3)
    for key in await world.blobs.keys(f"jobs/{job.id}/verified"):
        await world.blobs.delete([key])
    while (await world.job()).checkpoint == job.checkpoint:
        await world.tick(1)
    await world.tick(2)
    assert before <= await parts_in_store(world, job.id)
    assert lease.job_id == job.id


async def test_a_checkpoint_harmed_after_it_was_verified_gives_way_to_the_one_before(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    first = (await world.job()).checkpoint
    while (await world.job()).checkpoint == first:
        await world.tick(1)
    newest = (await world.job()).checkpoint
    assert first is not None
    assert newest is not None
    retention, now = CheckpointRetention(world.store, world.blobs), world.clock.now()

    async def reconsidered(by: str) -> Checkpoint | None:
        for _ in range(50):
            await retention.reconsider([Doubt(newest, by)], now)
            await asyncio.sleep(0.01)
        return (await world.job()).checkpoint

    assert await reconsidered(by=lease.id) == newest, "what is well stays, whatever a machine says"
    await world.blobs.put(part_key(newest.job_id, lease.id, newest.number, 0), b"harmed")
    assert await reconsidered(by=lease.id) == newest, "nor is it read again for one that goes on saying so"
    assert await reconsidered(by="another") == first
    assert "checkpoint.lost" in await world.events()
    await world.until_over()
