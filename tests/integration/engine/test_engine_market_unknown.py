"""A market that cannot be read for certain: nothing is launched, nothing is taken for gone, nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from tests.integration.engine.engine_world import World, a_world

UNREADABLE = ["http_503", "bad_json", "success_false", "truncated_page", "http_429"]


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_an_unreadable_list_changes_nothing_of_a_running_job(world: World, kind: str) -> None:
    world.agents.total_steps = 400
    lease = await world.running()
    before = (await world.lease(lease.id)).observed.seen_at
    await world.fault("list", kind, times=None)
    await world.tick(8)
    job = await world.job()
    assert job.status is JobStatus.RUNNING
    after = await world.lease(lease.id)
    assert (after.state, after.observed.seen_at, after.observed.absences) == (LeaseState.ACTIVE, before, 0)
    assert world.creates() == 1
    await world.clear_faults()
    await world.until_over()
    assert world.creates() == 1


@pytest.mark.parametrize("kind", ["html", "reset"])
async def test_nothing_is_launched_on_a_market_that_cannot_be_listed(world: World, kind: str) -> None:
    await world.fault("list", kind, times=None)
    await world.submit()
    await world.tick(6)
    assert (await world.leases(), world.creates()) == ((), 0)
    assert (await world.jobs.show("train"))["job"]["reason"] == "market_unknown"
    await world.clear_faults()
    await world.until_over()


async def test_a_stale_list_is_not_taken_for_a_loss(world: World) -> None:
    lease = await world.running()
    await world.fault("list", "stale_list", times=None, lag_s=3600.0)
    await world.tick(12)
    assert (await world.lease(lease.id)).state is LeaseState.ACTIVE
    assert world.creates() == 1
    await world.clear_faults()
    await world.until_over()


async def test_a_stale_list_after_a_restart_is_not_taken_for_a_loss(world: World) -> None:
    """A new daemon's adapter remembers nothing that the list could be held against."""
    lease = await world.running()
    world.clock.advance(90)
    await world.fault("list", "stale_list", times=None, lag_s=3600.0)
    await world.restart()
    await world.tick(8)
    assert (await world.lease(lease.id)).state is LeaseState.ACTIVE
    assert world.creates() == 1
    await world.clear_faults()
    await world.until_over()


async def test_a_stale_list_does_not_bring_a_destroyed_machine_back(world: World) -> None:
    world.agents.total_steps = 60
    lease = await world.running()
    await world.until(lambda job: job.status.is_final, "the job is over")
    await world.fault("list", "stale_list", times=3, lag_s=120.0)
    await world.until_over()
    assert (await world.lease(lease.id)).state is LeaseState.GONE


async def test_lists_that_lag_behind_creates_cause_no_second_machine(tmp_path: Path) -> None:
    async with a_world(tmp_path, list_lag_s=50.0) as world:
        await world.tick()
        await world.fault("create", "effect_then_500")
        await world.submit()
        await world.until_over()
        assert world.creates() == 1


async def test_a_search_that_fails_only_delays(world: World) -> None:
    await world.fault("search", "http_503", times=18)  # of the submit, which looks wider as well, and of the tick
    await world.submit()
    await world.tick()
    assert world.creates() == 0
    await world.until_over()


async def test_a_machine_that_no_list_has_shown_gets_no_second_permit(world: World) -> None:
    """What the market bills for it is not known: it must end by itself unless it comes into sight."""
    world.agents.total_steps = 400
    await world.tick()
    await world.submit()
    await world.tick()
    await world.fault("list", "http_503", times=None)
    await world.tick(12)
    (lease,) = await world.leases()
    assert (lease.was_listed, lease.permit.seq) == (False, 1)
    await world.clear_faults()
    await world.tick(12)
    assert (await world.lease(lease.id)).permit.seq > 1


@pytest.mark.slow
async def test_a_machine_that_is_heard_outlives_a_long_outage(world: World) -> None:
    world.agents.total_steps = 10_000
    await world.running()
    lease = await world.until_checkpoint()
    await world.fault("list", "http_503", times=None)
    await world.tick(60, apart_s=60)
    held = await world.lease(lease.id)
    assert held.permit.renewed_at is not None
    assert (world.clock.now() - held.permit.renewed_at).total_seconds() < 120
    assert (held.state, world.creates()) == (LeaseState.ACTIVE, 1)
    world.agents.total_steps = 60
    await world.clear_faults()
    await world.until_over()
    assert world.creates() == 1


async def test_an_unknown_market_does_not_keep_a_cancelled_job_from_its_destroy(world: World) -> None:
    lease = await world.running()
    await world.fault("list", "http_503", times=None)
    await world.tick()
    await world.jobs.cancel("train")
    await world.tick(3)
    assert world.instance(lease).destroyed_at is not None
    assert (await world.lease(lease.id)).state is LeaseState.DESTROY_SENT, "gone without a complete list"
    await world.clear_faults()
    await world.until_over(JobStatus.CANCELLED)


async def test_a_key_that_is_refused_launches_nothing_and_loses_nothing(world: World) -> None:
    lease = await world.running()
    world.api_key = "revoked"
    await world.restart()
    await world.tick(6)
    assert (await world.lease(lease.id)).state is LeaseState.ACTIVE
    assert world.engine.watches["vastai"].no_rights
    world.api_key = "sandbox-key"
    await world.restart()
    await world.until_over()
    assert world.creates() == 1
