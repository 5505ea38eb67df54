"""What the market does to a machine that works, and what the engine does about it."""

from __future__ import annotations

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.reasons import Reason
from autopilot_lab.sandbox.market import lifecycle
from autopilot_lab.sandbox.market.machines import HostState
from tests.integration.engine.engine_world import D, World


async def test_outbid_is_answered_by_a_re_bid_and_the_machine_resumes(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.rival(lease, "1.05")
    paused = await world.until_at(JobStatus.PAUSED)
    assert paused.observed.pause_cause is Reason.OUTBID
    resumed = await world.until_running()
    assert resumed.id == lease.id
    assert resumed.bid > lease.bid
    await world.until_over()
    bids = [row for row in world.sent("bid.changed") if row["instance_id"] == int(lease.instance_id or 0)]
    assert [D(str(row["price"])) for row in bids] == [resumed.bid]
    assert len(await world.leases()) == 1


async def test_outbid_by_far_moves_elsewhere_with_the_work(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.rival(lease, "5")
    await world.until(lambda job: job.launches == 2, "another machine")
    moved = await world.until_running()
    assert moved.machine_id != lease.machine_id
    await world.tick()  # the agent restores as soon as its machine runs
    assert world.agents.of(moved.instance_id).step >= 60
    await world.until_over()


async def test_a_re_bid_that_the_market_does_not_answer_is_not_lost(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    await world.fault("bid", "effect_then_500")
    world.rival(lease, "1.05")
    await world.until_at(JobStatus.PAUSED)
    resumed = await world.until_running()
    assert resumed.id == lease.id
    assert resumed.bid == world.instance(lease).price
    await world.until_over()


async def test_a_re_bid_that_the_market_ignores_is_raised_or_left(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    await world.fault("bid", "no_effect_success", times=None)
    world.rival(lease, "1.05")
    await world.until(lambda job: job.launches == 2, "another machine")
    await world.until_over()


async def test_displaced_by_an_on_demand_renter_leaves(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.add_on_demand(int(lease.machine_id), world.instance(lease).gpu_ids)
    await world.until(lambda job: job.launches == 2, "another machine")
    moved = await world.until_running()
    assert world.sent("bid.changed") == [], "no bid outranks one"
    assert moved.machine_id != lease.machine_id
    assert (await world.lease(lease.id)).reason is Reason.DISPLACED
    await world.until_over()
    assert world.instance(lease).destroyed_at is not None


async def test_a_host_that_vanishes_is_replaced_and_the_work_goes_on(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.set_host(int(lease.machine_id), HostState.VANISHED)
    await world.until_at(JobStatus.RECOVERING)
    moved = await world.until_running()
    assert moved.machine_id != lease.machine_id
    assert (await world.lease(lease.id)).reason is Reason.HOST_LOST
    await world.tick()
    assert world.agents.of(moved.instance_id).step >= 60
    await world.until_over()


async def test_a_host_that_comes_back_in_time_is_kept(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.set_host(int(lease.machine_id), HostState.OFFLINE)
    await world.until_at(JobStatus.RECOVERING)
    world.market.set_host(int(lease.machine_id), HostState.ONLINE)
    back = await world.until_running()
    assert back.id == lease.id
    await world.until_over()
    assert world.creates() == 1


async def test_a_machine_destroyed_in_the_console_is_replaced(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.destroy(int(lease.instance_id or 0), by="console")
    await world.until(lambda job: job.launches == 2, "another machine")
    gone = await world.lease(lease.id)
    assert (gone.state, gone.reason) == (LeaseState.GONE, Reason.VANISHED)
    moved = await world.until_running()
    await world.tick()
    assert world.agents.of(moved.instance_id).step >= 60
    await world.until_over()


async def test_an_empty_account_is_not_read_as_outbid(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.set_credit(D(0))
    paused = await world.until_at(JobStatus.PAUSED)
    assert paused.observed.pause_cause is Reason.OUT_OF_CREDIT
    await world.tick(20)
    assert world.sent("bid.changed") == []
    assert world.creates() == 1
    world.market.set_credit(D(50))
    back = await world.until_running()
    assert (back.observed.pause_cause, back.bid) == (None, lease.bid)
    assert world.sent("bid.changed") == [], "no rival bid against it"
    await world.until_over()
    assert (await world.lease(lease.id)).state is LeaseState.GONE


async def test_a_start_after_paying_in_that_fails_is_sent_again(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    world.market.set_credit(D(0))
    await world.until_at(JobStatus.PAUSED)
    await world.fault("state", "http_429", times=2)
    world.market.set_credit(D(50))
    back = await world.until_running()
    assert (back.id, back.bid) == (lease.id, lease.bid)
    assert "lease.start_failed" in await world.events()
    assert world.sent("bid.changed") == []
    await world.until_over()


async def test_the_bid_that_took_the_machine_is_beaten_by_a_tenth(world: World) -> None:
    """A rival at 1.22 times our bid: two raises by a tenth would both lose."""
    await world.running()
    lease = await world.until_checkpoint()
    world.rival(lease, "1.22")
    await world.until_at(JobStatus.PAUSED)
    back = await world.until_running()
    rival = (lease.bid * D("1.22")).quantize(D("0.001"))
    assert back.id == lease.id
    assert rival * D("1.1") <= back.bid <= rival * D("1.1") + D("0.003")
    assert len(world.sent("bid.changed")) == 1
    await world.until_over()


async def test_a_raise_that_the_market_turns_down_is_sent_again_at_once(world: World) -> None:
    await world.running()
    lease = await world.until_checkpoint()
    await world.fault("bid", "http_429")
    world.rival(lease, "1.05")
    await world.until_at(JobStatus.PAUSED)
    paused_at = world.clock.now()
    back = await world.until_running()
    assert back.id == lease.id
    assert (world.clock.now() - paused_at).total_seconds() < 90
    await world.until_over()


@pytest.mark.parametrize(("kind", "waits_for"), [("stuck_loading", 20), ("pull_failed", 0)])
async def test_a_machine_that_never_starts_is_given_up(world: World, kind: str, waits_for: int) -> None:
    """At once where its host's runtime says that it failed; in its time where nothing is said."""
    await world.fault("create", kind)
    await world.submit()
    await world.tick(waits_for, apart_s=60)
    assert world.creates() <= 1, "given up before its time"
    await world.until(lambda job: job.launches == 2, "another machine")
    first, second = await world.leases()
    assert first.reason is Reason.STUCK_LOADING
    assert first.machine_id != second.machine_id
    await world.until_over()


@pytest.mark.slow
async def test_a_host_whose_driver_is_too_old_is_not_tried_again_that_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record alone would let the job return to it where it has no other."""
    words = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver\n"
    monkeypatch.setattr(lifecycle, "_PULL_FAILED", words)
    await world.fault("create", "pull_failed", times=99)
    await world.submit()
    await world.tick(60, apart_s=300)
    tried = [lease.machine_id for lease in await world.leases()]
    assert len(tried) > 1
    assert len(tried) == len(set(tried)), "each host once"


async def test_a_command_that_fails_is_tried_again_and_then_given_up(world: World) -> None:
    world.agents.exit_code = 3
    world.agents.total_steps = 30
    await world.submit()
    job = await world.until_over(JobStatus.FAILED)
    assert (job.failures, job.exit_code, job.reason) == (3, 3, Reason.COMMAND_FAILED)
    assert [lease.agent.failures for lease in await world.leases()] == [2, 1], "twice on the first machine"
    assert world.creates() == 2


async def test_an_agent_that_cannot_run_again_is_replaced(world: World) -> None:
    """One of the version before: its heartbeats do not say that it can."""
    world.agents.exit_code, world.agents.ends_well_from = 3, 2
    world.agents.total_steps, world.agents.can_run_again = 30, False
    await world.submit()
    job = await world.until_over()
    assert (job.failures, job.exit_code) == (1, 0)
    assert [lease.reason for lease in await world.leases()] == [Reason.RETRY, Reason.COMPLETED]
    assert "run.ordered" not in await world.events()


async def test_a_command_that_fails_once_ends_well_on_its_machine(world: World) -> None:
    world.agents.exit_code, world.agents.ends_well_from = 3, 2
    await world.submit()
    job = await world.until(lambda job: job.failures == 1, "a failure")
    assert (job.run_epoch, job.reason) == (2, Reason.RETRY), "ordered in the tick that saw the exit"
    assert job.checkpoint is not None
    assert job.work_done <= job.checkpoint.work_done
    job = await world.until_over()
    assert (job.failures, job.exit_code, job.run_epoch, job.launches) == (1, 0, 2, 1)
    assert (await world.events()).count("run.ordered") == 1
    assert world.creates() == 1
    assert job.checkpoint is not None
    assert job.checkpoint.run_epoch == 2


async def test_cancel_between_two_attempts_lets_the_machine_go(world: World) -> None:
    world.agents.exit_code, world.agents.total_steps = 3, 60
    await world.submit()
    await world.until(lambda job: job.failures == 1, "a failure")
    await world.jobs.cancel("train")
    job = await world.until_over(JobStatus.CANCELLED)
    assert (job.failures, world.creates()) == (1, 1)
