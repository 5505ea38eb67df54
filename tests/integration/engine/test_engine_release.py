"""Removing machines: destroys without effect, cancels in every state, and machines that were not requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from autopilot.agent.shipped.orders import parse_taken_over
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot.domain.time import start_of_day, utc_day
from autopilot.engine.observe import Reading
from autopilot.mailbox.keys import orders_key
from autopilot_lab.sandbox.market.machines import HostState
from tests.integration.engine.engine_world import INSTALL_ID, D, World


async def test_a_destroy_that_does_nothing_is_asked_for_again_until_it_takes(world: World) -> None:
    world.agents.total_steps = 60
    lease = await world.running()
    await world.fault("destroy", "no_effect_success", times=3)
    await world.until_over()
    assert await world.requests("destroy") >= 4
    assert (await world.lease(lease.id)).state is LeaseState.GONE
    assert "lease.destroy_ignored" in await world.events()


@pytest.mark.parametrize("kind", ["http_500", "effect_then_500", "reset", "http_429"])
async def test_a_destroy_of_unknown_outcome_is_asked_for_until_the_machine_is_gone(world: World, kind: str) -> None:
    world.agents.total_steps = 60
    lease = await world.running()
    await world.fault("destroy", kind, times=2)
    await world.until_over()
    assert (await world.lease(lease.id)).state is LeaseState.GONE


async def test_cancel_before_anything_is_rented(world: World) -> None:
    await world.submit()
    await world.jobs.cancel("train")
    job = await world.until_over(JobStatus.CANCELLED)
    assert job.reason is Reason.USER_CANCELLED
    assert world.creates() == 0


async def test_cancel_while_the_create_is_unknown_waits_for_its_machine_and_destroys_it(world: World) -> None:
    await world.fault("create", "effect_then_reset")
    await world.submit()
    await world.tick()
    assert (await world.leases())[0].create_unknown
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    (created,) = world.sent("instance.created")
    assert [row["instance_id"] for row in world.sent("instance.destroyed")] == [created["instance_id"]]
    assert world.creates() == 1


async def test_cancel_while_a_create_without_effect_is_unknown_ends_with_it(world: World) -> None:
    await world.fault("create", "reset")
    await world.submit()
    await world.tick()
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 0


async def test_cancel_while_loading(world: World) -> None:
    await world.submit()
    await world.until_at(JobStatus.STARTING)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 1


async def test_cancel_while_running(world: World) -> None:
    await world.running()
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 1


async def test_cancel_while_paused(world: World) -> None:
    lease = await world.running()
    world.rival(lease, "1.05")
    await world.until_at(JobStatus.PAUSED)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 1


async def test_cancel_while_its_host_is_offline(world: World) -> None:
    lease = await world.running()
    world.market.set_host(int(lease.machine_id), HostState.OFFLINE)
    await world.until_at(JobStatus.RECOVERING)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 1


async def test_a_cancelled_job_stays_cancelled_despite_reports_of_its_agent(world: World) -> None:
    world.agents.total_steps = 45
    await world.running()
    await world.fault("destroy", "http_500", times=4)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert world.creates() == 1


async def test_an_orphan_of_ours_is_swept_at_the_second_pass_and_a_stranger_never(world: World) -> None:
    world.agents.total_steps = 1000
    await world.running()
    strangers = [
        await world.rent_by_hand("ap1.another8.01KDVDNRY4R11887CN5CG1S8J6"),
        await world.rent_by_hand("my own training"),
        await world.rent_by_hand(f"copy of ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6"),
    ]
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6")
    world.clock.advance(90)
    await world.tick()
    assert orphan.destroyed_at is None, "destroyed at first sight"
    await world.tick(5)
    assert orphan.destroyed_at is not None
    await world.jobs.cancel("train")
    await world.until(lambda job: job.status.is_final, "the job is cancelled")
    await world.tick(40)
    assert all(stranger.destroyed_at is None for stranger in strangers)
    spend = await world.spend()
    assert spend[str(orphan.id)] > 0
    assert not {str(stranger.id) for stranger in strangers} & spend.keys()


async def test_an_orphan_whose_destroy_does_not_take_is_destroyed_all_the_same(world: World) -> None:
    await world.running()
    await world.fault("destroy", "no_effect_success", times=2)
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6")
    await world.tick(20)
    assert orphan.destroyed_at is not None
    await world.until_over()


async def test_most_of_ours_unknown_means_quarantine_and_no_sweep_until_it_has_lasted(world: World) -> None:
    orphans = [await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J{n}") for n in range(3)]
    await world.submit()
    await world.tick(20)
    assert all(orphan.destroyed_at is None for orphan in orphans)
    assert world.creates() == 3, "launched in quarantine"
    world.clock.advance(1800)
    await world.tick(10)
    assert all(orphan.destroyed_at is not None for orphan in orphans)
    await world.until_over()


@pytest.mark.parametrize(("off_s", "ends"), [(60.0, True), (900.0, False)])
async def test_a_restart_restarts_a_quarantine_only_after_a_long_downtime(
    world: World, off_s: float, ends: bool
) -> None:
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J1")
    await world.tick(20, apart_s=60)
    world.clock.advance(off_s)
    await world.restart()
    await world.tick(8, apart_s=60)
    assert orphan.destroyed_at is None, "28 minutes at the most"
    await world.tick(6, apart_s=60)
    assert (orphan.destroyed_at is not None) is ends
    await world.tick(20, apart_s=60)
    assert orphan.destroyed_at is not None


@pytest.mark.slow
async def test_a_relabelled_machine_is_its_user_s_and_the_job_goes_on_elsewhere(world: World) -> None:
    lease = await world.running()
    world.market.relabel(int(lease.instance_id or 0), "renamed in the console")
    await world.until(lambda job: job.status is JobStatus.SUCCEEDED, "the job is over")
    await world.tick(20)
    assert world.ours() == []
    assert world.instance(lease).destroyed_at is None
    assert world.creates() == 2
    ended = await world.lease(lease.id)
    assert ended.reason is Reason.TAKEN_OVER
    await world.restart()
    await world.tick(2)
    said = await world.blobs.get(orders_key(ended.first_job_id or ended.job_id or "", lease.id))
    assert parse_taken_over(said or b"") == lease.instance_id, "the end of its permit is not to destroy it"
    await tick_tomorrow(world)
    spent = (await world.spend())[lease.instance_id or ""]
    assert spent > D(0)
    for _ in range(3):
        await tick_tomorrow(world)
    assert (await world.spend())[lease.instance_id or ""] == spent, "what it costs its user is no job's"


async def tick_tomorrow(world: World) -> None:
    """Once the bills of today are in."""
    now = world.clock.now()
    world.clock.advance((start_of_day(utc_day(now) + timedelta(days=1)) - now + timedelta(hours=3)).total_seconds())
    await world.tick(3)


async def test_a_machine_whose_label_is_not_shown_is_kept(world: World) -> None:
    lease = await world.running()
    world.market.relabel(int(lease.instance_id or 0), "")
    await world.tick(6)
    assert world.instance(lease).destroyed_at is None
    await world.until(lambda job: job.status is JobStatus.SUCCEEDED, "the job is over")
    await world.tick(20)
    assert world.instance(lease).destroyed_at is not None
    assert world.creates() == 1


async def test_what_is_changed_while_the_markets_are_read_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.running()
    read = world.engine._read_markets

    async def read_while_the_user_cancels(leases: Sequence[Lease]) -> Mapping[str, Reading]:
        found = await read(leases)
        await world.jobs.cancel("train")
        return found

    monkeypatch.setattr(world.engine, "_read_markets", read_while_the_user_cancels)
    await world.tick()
    monkeypatch.undo()
    assert (await world.job()).status in (JobStatus.CANCELLING, JobStatus.CANCELLED)
    await world.until_over(JobStatus.CANCELLED)


@pytest.mark.slow
async def test_a_machine_under_the_label_of_another_lease_stays_under_its_permit(world: World) -> None:
    """The market may be wrong about it: the machine still ends itself, and is destroyed."""
    lease = await world.running()
    world.market.relabel(int(lease.instance_id or 0), f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J9")
    await world.until(lambda job: job.status is JobStatus.SUCCEEDED, "the job is over")
    await world.tick(2)
    ended = await world.lease(lease.id)
    assert ended.reason is not Reason.TAKEN_OVER
    assert await world.blobs.get(orders_key(ended.first_job_id or ended.job_id or "", lease.id)) is None
