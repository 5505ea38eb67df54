"""What stays in the store: the newest checkpoints, and every part that one of them names, regardless of its sender."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.domain.errors import UserError
from autopilot.domain.job import Checkpoint, JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.engine.checkpoint_retention import CheckpointRetention, Doubt
from autopilot.engine.event_log import checkpoint_set_aside
from autopilot.mailbox.checkpoints import keep_verified, kept_manifest, verified_manifest
from autopilot.mailbox.keys import manifest_key, part_key
from autopilot.mailbox.report_shapes import Manifest
from tests.builders import a_checkpoint
from tests.checkpoint_data import a_part, an_index
from tests.integration.engine.engine_world import World
from tests.leases import change_lease
from tests.store_records import a_job, a_lease

JOB = "job-000001"


async def parts_in_store(world: World, job_id: str) -> set[str]:
    return {key for key in await world.blobs.sizes(f"jobs/{job_id}") if re.search(r"/ckpt/\d+/part-", key)}


async def put_reusing(world: World, lease: Lease, number: int, old: Manifest, step: int) -> None:
    """A checkpoint of a new index and the data parts of ``old``, as an agent writes it that has little to send."""
    data = an_index(f"changed at step {step}", old.parts[1].size)
    new = a_part(0, data)
    assert lease.job_id is not None
    await world.blobs.put(part_key(lease.job_id, lease.id, number, 0), data)
    manifest = Manifest(lease.orders.run_epoch, number, (new, *old.parts[1:]), step)
    await world.blobs.put(manifest_key(lease.job_id, lease.id, number), manifest.to_json())


async def test_a_part_lives_as_long_as_a_kept_checkpoint_names_it(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    agent = world.agents.of(lease.instance_id)
    job = await world.job()
    assert job.checkpoint is not None
    base = await kept_manifest(world.blobs, job.id, lease.id, job.checkpoint.number)
    assert base is not None
    shared = set(base.part_keys(job.id, lease.id)[1:])
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
            manifest = await verified_manifest(
                world.blobs, AgentUnpacker(), job.id, checkpoint.lease_id, checkpoint.number
            )
            assert manifest is not None, "a kept checkpoint has lost a part"
        numbers = {checkpoint.number for checkpoint in kept}
        if number in numbers and base.number not in numbers:
            seen_shared_kept = True
            assert shared <= await parts_in_store(world, job.id)
        if job.checkpoint.number > number + 2:
            break
    assert seen_shared_kept
    left = await parts_in_store(world, job.id)
    assert not shared & left
    assert stale not in left
    assert abandoned in left
    assert await kept_manifest(world.blobs, job.id, lease.id, base.number) is None
    await world.until_over()


async def test_without_the_manifest_of_a_kept_one_nothing_is_deleted(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    job = await world.job()
    assert job.checkpoint is not None
    before = await parts_in_store(world, job.id)
    await world.tick(3)
    for key in await world.blobs.sizes(f"jobs/{job.id}/verified"):
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
    retention, now = CheckpointRetention(world.store, world.blobs, AgentUnpacker()), world.clock.now()

    async def reconsidered(by: str) -> Checkpoint | None:
        await reconsider(retention, Doubt(newest, by, "machine-1"), now)
        return (await world.job()).checkpoint

    assert await reconsidered(by=lease.id) == newest, "what is well stays, regardless of a machine's report"
    await world.blobs.put(part_key(newest.job_id, lease.id, newest.number, 0), b"harmed")
    assert await reconsidered(by=lease.id) == newest, "nor is it read again for one that goes on saying so"
    assert await reconsidered(by="another") == first
    assert "checkpoint.lost" in await world.events()
    await world.until_over()


async def reconsider(retention: CheckpointRetention, doubt: Doubt, now: datetime) -> None:
    """As ticks do one after the other, a last time once nothing is being read any more."""
    for _ in range(3):
        await retention.reconsider([doubt], now)
        if retention._looks:
            await asyncio.wait(retention._looks.values())


async def put_ledger(world: World, machines: list[str], order: str) -> list[Checkpoint]:
    """A job with a lease on each of the machines and checkpoints by ``order``: the leases' indices, oldest first."""
    leases = [
        change_lease(a_lease(id=f"lease-{i}", label=f"label-{i}"), machine_id=machine, state=LeaseState.GONE)
        for i, machine in enumerate(machines)
    ]
    made = []
    async with world.store.transaction() as uow:
        await uow.jobs.save(a_job(leases=tuple(leases), status=JobStatus.PARKED))
        for epoch, i in enumerate(order):
            checkpoint = a_checkpoint(leases[int(i)], epoch, job_id=JOB, run_epoch=1 + epoch)
            made.append(checkpoint)
            await uow.checkpoints.add(checkpoint)
            parts = (a_part(0, an_index(str(epoch))),)
            await world.blobs.put(part_key(JOB, checkpoint.lease_id, epoch, 0), an_index(str(epoch)))
            await keep_verified(world.blobs, JOB, checkpoint.lease_id, Manifest(1 + epoch, epoch, parts))
    return made


async def known(world: World) -> list[int]:
    async with world.store.snapshot() as uow:
        found = await uow.checkpoints.list_by_job(JOB)
    return [checkpoint.number for checkpoint in found if not checkpoint.is_set_aside]


@pytest.mark.parametrize(
    ("machines", "order", "kept"),
    [
        pytest.param(["a", "b"], "0011", [3, 2, 1], id="of-another-lease"),
        pytest.param(["a", "b", "b"], "001122", [5, 4, 3, 1], id="of-another-machine"),
        pytest.param(["a"], "0000", [3, 2], id="one-machine"),
        pytest.param(["a", "b"], "0101", [3, 2], id="in-turn"),
    ],
)
async def test_one_machine_cannot_replace_what_others_left(
    world: World, machines: list[str], order: str, kept: list[int]
) -> None:
    await put_ledger(world, machines, order)
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(JOB)
    assert job is not None
    await CheckpointRetention(world.store, world.blobs, AgentUnpacker()).delete_surplus([job])
    assert await known(world) == kept
    assert len(await parts_in_store(world, JOB)) == len(kept)


async def test_what_a_ledger_put_back_from_a_copy_does_not_know_stays(world: World) -> None:
    checkpoints = await put_ledger(world, ["a"], "0000")
    index = an_index("after the copy")
    for number in (7, 8):
        await world.blobs.put(part_key(JOB, "lease-0", number, 0), index)
        await world.blobs.put(manifest_key(JOB, "lease-0", number), b"{}")
    verified = Manifest(7, 7, (a_part(0, index),))
    await keep_verified(world.blobs, JOB, "lease-0", verified)  # by the daemon whose ledger was lost
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(JOB)
    assert job is not None
    await CheckpointRetention(world.store, world.blobs, AgentUnpacker()).delete_surplus([job])
    assert part_key(JOB, "lease-0", 7, 0) in await parts_in_store(world, JOB)
    assert part_key(JOB, "lease-0", 8, 0) not in await parts_in_store(world, JOB), "it is not verified"
    async with world.store.transaction() as uow:
        await uow.events.add([checkpoint_set_aside(replace(checkpoints[-1], number=7), "user", world.clock.now())])
    await CheckpointRetention(world.store, world.blobs, AgentUnpacker()).delete_surplus([job])
    assert part_key(JOB, "lease-0", 7, 0) not in await parts_in_store(world, JOB), "the job is not to go on from it"


async def doubt(world: World, checkpoint: Checkpoint, lease_id: str, machine_id: str) -> None:
    """By a daemon that has just been started."""
    retention = CheckpointRetention(world.store, world.blobs, AgentUnpacker())
    await reconsider(retention, Doubt(checkpoint, lease_id, machine_id), world.clock.now())


async def test_two_machines_that_cannot_restore_step_back_by_themselves(world: World) -> None:
    checkpoints = await put_ledger(world, ["a", "b"], "0011")
    newest = checkpoints[-1]
    await doubt(world, newest, "lease-2", "c")
    await doubt(world, newest, "lease-3", "c")
    assert await known(world) == [3, 2, 1, 0], "one machine's word is not enough, however often it is rented"
    await doubt(world, newest, "lease-4", "d")
    assert await known(world) == [1, 0], "the job goes on from what another machine has left"
    assert "checkpoint.set_aside" in await world.events()


async def test_there_is_no_step_back_from_the_only_one(world: World) -> None:
    (only,) = await put_ledger(world, ["a"], "0")
    for lease_id, machine_id in (("lease-2", "c"), ("lease-3", "d")):
        await doubt(world, only, lease_id, machine_id)
    assert await known(world) == [0]


@pytest.mark.parametrize("name", ["2", "lease-1.2"])
async def test_the_user_goes_back_to_an_older_one(world: World, name: str) -> None:
    await put_ledger(world, ["a", "b"], "0011")
    answer = (await world.jobs.resume(JOB, name))["job"]
    assert (answer["status"], answer["checkpoint"]["number"]) == ("recovering", 2)
    assert await known(world) == [2, 1, 0]


async def test_a_checkpoint_that_is_not_there_is_named(world: World) -> None:
    await put_ledger(world, ["a", "b"], "0011")
    with pytest.raises(UserError, match="there is no checkpoint 9") as refusal:
        await world.jobs.resume(JOB, "9")
    assert "lease-1.3" in str(refusal.value.hint)
    assert await known(world) == [3, 2, 1, 0]


async def test_a_job_at_work_does_not_go_back(world: World) -> None:
    await world.running()
    await world.until_checkpoint()
    with pytest.raises(UserError, match="is running and cannot return to a checkpoint"):
        await world.jobs.resume("train", "0")
    await world.until_over()
