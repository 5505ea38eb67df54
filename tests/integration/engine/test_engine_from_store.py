"""A ledger that was put back from an older copy: the job goes on from what the store holds, and what it cost is booked.

The market, the store and the agents go on as they were; only the ledger is an older one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.labels import label_for
from autopilot.domain.lease import Lease, LeaseState, Observed
from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.engine.rental_notes import to_note
from autopilot.engine.sweep import QUARANTINE_LASTS
from autopilot.mailbox.keys import manifest_key, part_key, rental_key, verified_key
from autopilot.mailbox.report_shapes import Manifest
from autopilot.ports.blobs import BlobUnavailable
from autopilot_lab.memory_store.store import MemoryStore
from tests.checkpoint_data import a_part, an_index
from tests.integration.engine.engine_world import INSTALL_ID, D, World


@pytest.fixture
def world(world: World) -> World:
    world.agents.total_steps = 100_000
    return world


async def second_machine(world: World) -> tuple[MemoryStore, Lease, Job]:
    """The ledger was copied while the job ran on its first machine. It goes on, on another, and saves there."""
    first = await world.until_checkpoint()
    copy = world.copy_ledger()
    world.market.destroy(int(first.instance_id or 0), by="console")

    def saves_elsewhere(job: Job) -> bool:
        return bool(job.main and job.main.id != first.id and job.checkpoint and job.checkpoint.lease_id == job.main.id)

    job = await world.until(saves_elsewhere, "a checkpoint of the second machine")
    await world.tick(8)
    job = await world.job()
    assert job.main is not None
    return copy, job.main, job


async def begin(world: World) -> tuple[MemoryStore, Lease, Job]:
    await world.submit()
    return await second_machine(world)


async def parked(world: World) -> Job:
    await world.until(lambda job: job.main is None or job.status is JobStatus.RUNNING, "the ledger sees what there is")
    if (await world.job()).status is not JobStatus.PARKED:
        await world.jobs.stop("train")
    return await world.until(lambda job: job.status is JobStatus.PARKED, "the job is parked")


async def at_work_again(world: World) -> Job:
    return await world.until(lambda job: job.status is JobStatus.RUNNING, "the job runs again")


async def test_the_job_goes_on_from_the_newest_checkpoint_of_the_store_and_not_from_the_copy_s(world: World) -> None:
    copy, second, before = await begin(world)
    world.market.destroy(int(second.instance_id or 0), by="console")
    await world.put_back(copy)
    older = await parked(world)
    assert before.checkpoint is not None
    assert older.checkpoint is not None
    assert older.checkpoint.order < before.checkpoint.order, "the copy knows an older one"
    assert world.engine.from_store.behind.keys() == {world.job_id}
    told = await world.jobs.look_into_store("train")
    assert told["store"]["checkpoint"]["lease_id"] == second.id
    assert told["store"]["checkpoint"]["number"] == before.checkpoint.number
    assert told["store"]["checkpoint"]["age_s"] > 0
    assert [each["lease_id"] for each in told["store"]["machines"]] == [second.id]
    assert (await world.job()).checkpoint == older.checkpoint, "a look changes nothing"

    await world.jobs.resume_from_store("train")
    job = await world.until(lambda job: job.status is not JobStatus.PARKED, "the store is read")
    assert job.checkpoint is not None
    assert (job.checkpoint.lease_id, job.checkpoint.number) == (second.id, before.checkpoint.number)
    assert job.run_epoch >= before.run_epoch
    assert world.engine.from_store.behind == {}
    job = await at_work_again(world)
    assert job.main is not None
    assert job.main.orders.run_epoch > before.run_epoch, "what ran before is fenced"
    assert world.agents.of(job.main.instance_id).step >= before.checkpoint.step
    assert "store.read" in await world.events()
    world.agents.total_steps = 10
    await world.until_over()  # the sandbox's books equal the ledger's
    assert world.creates() == 3


@pytest.mark.slow
async def test_the_money_spent_since_the_copy_is_booked_before_anything_is_rented(world: World) -> None:
    copy, second, _ = await begin(world)
    await world.tick(40, apart_s=60)
    world.market.destroy(int(second.instance_id or 0), by="console")
    await world.tick(4)
    spent = (await world.spend())[second.instance_id or ""]
    assert spent > ZERO
    await world.put_back(copy)
    await parked(world)
    assert second.instance_id not in await world.spend()
    await world.jobs.resume_from_store("train")
    await world.until(lambda job: job.status is not JobStatus.PARKED, "the store is read")
    regained = await world.lease(second.id)
    assert regained.job_id == world.job_id
    # Posted at once by the clock of the daemon that was lost, and then by the bill.
    assert (await world.spend())[second.instance_id or ""] >= spent * D("0.95")
    world.agents.total_steps = 10
    await world.until_over()


async def test_a_machine_that_is_still_there_is_watched_and_becomes_the_job_s_own_again(world: World) -> None:
    copy, second, before = await begin(world)
    await world.put_back(copy)
    await parked(world)
    await world.jobs.resume_from_store("train")
    await world.tick(10, apart_s=60)
    assert (await world.job()).reason is Reason.FROM_STORE, "it is watched for as long as a quarantine lasts"
    world.clock.advance(QUARANTINE_LASTS.total_seconds())
    await world.tick(4)
    job = await world.job()
    assert job.main is not None
    assert job.main.id == second.id
    assert job.main.orders.run_epoch > before.run_epoch
    assert world.instance(second).destroyed_at is None
    assert world.creates() == 2
    newest = (await world.job()).checkpoint
    assert newest is not None
    await world.until(
        lambda job: bool(job.checkpoint and job.checkpoint.order > newest.order), "it saves under its new epoch"
    )
    world.agents.total_steps = 10
    await world.until_over()
    assert world.creates() == 2, "never a second machine"
    async with world.store.snapshot() as uow:
        names = {record.name for record in await uow.events.list_by_job(world.job_id)}
    assert {"lease.regained", "run.ordered", "store.read"} <= names


async def test_of_two_machines_the_newest_run_s_goes_on_and_the_other_is_given_back(world: World) -> None:
    copy, second, _ = await begin(world)
    other_id = "01KDVDNRY4R11887CN5CG1S8J6"
    other = await world.rent_by_hand(label_for(INSTALL_ID, other_id))
    orders = replace(second.orders, run_epoch=second.orders.run_epoch - 1)
    noted = replace(second, id=other_id, label=other.label or "", instance_id=str(other.id), orders=orders)
    await world.blobs.put(rental_key(world.job_id, other_id), to_note(world.job_id, noted))
    await world.put_back(copy)
    await parked(world)
    await world.jobs.resume_from_store("train")
    await world.tick(2)
    await world.restart()  # the watch restarts, and the sweep leaves both alone
    world.clock.advance(QUARANTINE_LASTS.total_seconds() - 60)
    await world.tick(8)
    assert (other.destroyed_at, world.instance(second).destroyed_at) == (None, None)
    world.clock.advance(QUARANTINE_LASTS.total_seconds())
    await world.tick(8)
    job = await world.job()
    assert job.main is not None
    assert job.main.id == second.id
    assert other.destroyed_at is not None
    world.agents.total_steps = 10
    await world.until_over()


async def test_an_unobserved_create_and_a_machine_that_its_user_took_over_are_accepted(world: World) -> None:
    copy, second, _ = await begin(world)
    noted_ids = ["01KDVDNRY4R11887CN5CG1S8J6", "01KDVDNRY4R11887CN5CG1S8J7"]  # no two may hold one place
    for asked in noted_ids:
        noted = replace(second, id=asked, label=label_for(INSTALL_ID, asked), instance_id=None, acquired_at=None)
        noted = replace(noted, state=LeaseState.INTENT, spans=(), observed=Observed())
        await world.blobs.put(rental_key(world.job_id, asked), to_note(world.job_id, noted))
    await world.put_back(copy)
    await parked(world)
    world.market.relabel(int(second.instance_id or 0), "rescued by hand")
    await world.jobs.resume_from_store("train")
    job = await at_work_again(world)
    assert job.main is not None
    assert job.main.id != second.id
    assert [(await world.lease(id_)).state for id_ in noted_ids] == [LeaseState.ABANDONED, LeaseState.ABANDONED]
    assert (await world.lease(second.id)).reason is Reason.TAKEN_OVER
    assert world.instance(second).destroyed_at is None


async def test_a_machine_that_is_watched_outlives_a_store_that_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, second, _ = await begin(world)
    await world.put_back(copy)
    await parked(world)
    await world.jobs.resume_from_store("train")
    world.clock.advance(QUARANTINE_LASTS.total_seconds())

    async def unreadable(*_: object) -> None:
        raise BlobUnavailable("the bucket does not answer")

    world.agents.deaf.add(second.id)
    with monkeypatch.context() as broken:
        broken.setattr(world.blobs, "get", unreadable)
        await world.tick(8)
    world.agents.deaf.clear()
    await world.tick()  # the watch begins
    assert world.instance(second).destroyed_at is None
    world.clock.advance(QUARANTINE_LASTS.total_seconds())
    await world.tick(4)
    job = await world.job()
    assert job.main is not None
    assert job.main.id == second.id


async def test_a_market_that_is_not_in_the_settings_proves_no_machine_gone(world: World) -> None:
    copy, second, _ = await begin(world)
    other_id = "01KDVDNRY4R11887CN5CG1S8J6"
    noted = replace(second, id=other_id, label=label_for(INSTALL_ID, other_id), provider="runpod", instance_id="pod-1")
    await world.blobs.put(rental_key(world.job_id, other_id), to_note(world.job_id, noted))
    await world.put_back(copy)
    await parked(world)
    with capture_logs() as logs:
        await world.jobs.resume_from_store("train")
        await world.tick(4)
        world.clock.advance(QUARANTINE_LASTS.total_seconds())
        await world.tick(10)
    assert (await world.job()).status is JobStatus.PARKED
    assert world.creates() == 2, "nothing takes its place"
    assert world.instance(second).destroyed_at is None
    assert [line["markets"] for line in logs if line["event"] == "store.market_absent"] == [["runpod"]]


@asynccontextmanager
async def a_daemon_on(world: World, copy: MemoryStore) -> AsyncIterator[World]:
    """A second daemon on the copy, beside the first one: the same account, the same store."""
    twin = World(world.root, world.clock, world.sandbox, world.http, world.wrap)
    twin.blobs, twin.agents, twin.job_id = world.blobs, world.agents, world.job_id
    twin.use_copy(copy)
    await twin.start()
    try:
        yield twin
    finally:
        await twin.stop()


async def test_nothing_is_taken_while_another_daemon_leads_the_machine(world: World) -> None:
    copy, second, _ = await begin(world)
    async with a_daemon_on(world, copy) as twin:
        older = await parked(twin)
        await twin.jobs.resume_from_store("train")
        for _ in range(8):
            await world.tick()
            await twin.tick()
        job = await twin.job()
        assert (job.status, job.reason) == (JobStatus.PARKED, Reason.OTHER_DAEMON)
        assert (job.checkpoint, job.run_epoch) == (older.checkpoint, older.run_epoch)
        assert second.id not in [lease.id for lease in await twin.leases()]
    assert world.instance(second).destroyed_at is None
    assert (await world.job()).status is JobStatus.RUNNING


async def test_nothing_is_taken_where_the_mailbox_names_another_daemon(world: World) -> None:
    copy, _, _ = await begin(world)
    await world.put_back(copy)
    await parked(world)
    world.engine.from_store._is_own_mailbox = lambda: False
    await world.jobs.resume_from_store("train")
    await world.tick(2)
    assert (await world.job()).reason is Reason.OTHER_DAEMON


async def test_a_machine_whose_cost_the_budget_does_not_hold_is_ended(world: World) -> None:
    copy, second, _ = await begin(world)
    await world.put_back(copy)
    await parked(world)
    await world.jobs.resume_from_store("train")
    await world.tick(2)
    await world.jobs.change("train", {"budget": "0.10"}, least_probability=0)
    world.clock.advance(QUARANTINE_LASTS.total_seconds())
    await world.tick(8)
    assert world.instance(second).destroyed_at is not None
    ended = await world.lease(second.id)
    assert ended.reason is Reason.BUDGET_EXHAUSTED
    assert world.creates() == 2
    await world.until(lambda job: job.status is JobStatus.PARKED, "no money for another")


async def claim(world: World, lease: Lease, number: int, run_epoch: int, data: bytes = b"x") -> None:
    """A checkpoint as that machine might write it: ``data`` lies there, and the manifest speaks of an x."""
    index = an_index("claimed", 1)
    parts = (a_part(0, index), a_part(1, b"x"))
    await world.blobs.put(part_key(world.job_id, lease.id, number, 0), index)
    await world.blobs.put(part_key(world.job_id, lease.id, number, 1), data)
    manifest = Manifest(run_epoch, number, parts, 999_999)
    await world.blobs.put(manifest_key(world.job_id, lease.id, number), manifest.to_json())


async def test_what_is_torn_foreign_or_too_large_is_passed_over_and_said(world: World) -> None:
    copy, second, before = await begin(world)
    assert before.checkpoint is not None
    world.market.destroy(int(second.instance_id or 0), by="console")
    await world.put_back(copy)
    await parked(world)
    epoch, job_id = second.orders.run_epoch, world.job_id
    await claim(world, second, 101, epoch, data=b"y")  # the hash is of something else
    await claim(world, second, 102, epoch + 7)  # a run that the machine never had
    await claim(world, second, 103, epoch)
    huge = part_key(job_id, second.id, 103, 1)
    manifest = json.loads(await world.blobs.get(manifest_key(job_id, second.id, 103)) or b"")
    manifest["parts"][1]["size"] = world.blobs.empty_bytes[huge] = 10**15
    await world.blobs.put(manifest_key(job_id, second.id, 103), json.dumps(manifest).encode())
    await world.blobs.put(manifest_key(job_id, second.id, 104), b"{")
    world.blobs.empty_bytes[manifest_key(job_id, second.id, 105)] = 10**12
    stranger = "01KDVDNRY4R11887CN5CG1S8J6"
    await world.blobs.put(manifest_key(job_id, stranger, 1), Manifest(epoch, 1, (a_part(0, b""),), 1).to_json())
    note = await world.blobs.get(rental_key(job_id, second.id)) or b""
    foreign = "01KDVDNRY4R11887CN5CG1S8J7"
    await world.blobs.put(rental_key(job_id, foreign), note)
    told = (await world.jobs.look_into_store("train"))["store"]
    passed = {(each["lease_id"], each["number"]): each["why"] for each in told["passed_over"]}
    assert passed[second.id, 101].startswith("not whole")
    assert "run epoch" in passed[second.id, 102]
    assert passed[second.id, 103].startswith("not whole")
    assert passed[second.id, 104] == passed[second.id, 105] == "its manifest is none"
    assert passed[stranger, 1] == "nothing says where its machine was rented"
    assert passed[foreign, None].startswith("what is noted of it is not of this job")
    assert told["checkpoint"]["number"] == before.checkpoint.number
    assert [each["lease_id"] for each in told["machines"]] == [second.id]
    await world.jobs.resume_from_store("train")
    job = await world.until(lambda job: job.status is not JobStatus.PARKED, "the store is read")
    assert job.checkpoint is not None
    assert job.checkpoint.number == before.checkpoint.number
    assert (await world.events()).count("checkpoint.passed_over") == len(passed)


async def test_what_was_harmed_since_it_was_verified_is_passed_over_for_the_one_before(world: World) -> None:
    copy, second, before = await begin(world)
    assert before.checkpoint is not None
    world.market.destroy(int(second.instance_id or 0), by="console")
    await world.put_back(copy)
    await parked(world)
    number = before.checkpoint.number
    await world.blobs.put(part_key(world.job_id, second.id, number, 1), b"harmed")
    told = (await world.jobs.look_into_store("train"))["store"]
    assert told["checkpoint"]["number"] == number - 1
    assert await world.blobs.size(verified_key(world.job_id, second.id, number)) is not None


async def test_a_job_that_works_is_told_to_stop_first(world: World) -> None:
    await world.running()
    with pytest.raises(UserError, match="cannot resume from the store"):
        await world.jobs.resume_from_store("train")


async def test_a_machine_of_a_lost_ledger_may_still_save(world: World) -> None:
    copy, second, _ = await begin(world)
    await world.put_back(copy)
    await world.tick(2)
    assert f"jobs/{world.job_id}/{second.id}" in world.blobs.admitted


async def test_a_restart_upon_the_ledger_itself_finds_nothing_unknown(world: World) -> None:
    await begin(world)
    await world.restart()
    await world.tick(3)
    assert world.engine.from_store.behind == {}
    assert all(lease.state is not LeaseState.INTENT for lease in await world.leases())
