"""A job on Mithril: it waits for an auction, is outbid and returns by itself, is raised live, and ends its bid."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.planning.prospects import Unlikely
from autopilot_lab.sandbox.mithril.bids import BidStatus
from autopilot_lab.sandbox.mithril.lifecycle import Timings
from tests.integration.engine.engine_world import a_world
from tests.integration.engine.mithril_world import JOB, MithrilWorld

D = Decimal


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MithrilWorld]:
    async with a_world(tmp_path, kind=MithrilWorld) as made:
        assert isinstance(made, MithrilWorld)
        yield made


async def test_a_job_runs_to_its_end_and_leaves_no_open_bid(world: MithrilWorld) -> None:
    lease = await world.running(JOB)
    assert world.bid(lease).status is BidStatus.ALLOCATED
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert world.open_bids() == []
    (posted,) = (await world.spend()).values()
    # The price is looked at once a minute, and a machine once a tick; the price itself did not move.
    assert abs(posted - world.billed()) <= D("0.02")
    assert posted < lease.bid * D("0.25")


async def test_a_job_that_nothing_would_ever_be_bid_for_is_refused_with_the_line_that_would_do(
    world: MithrilWorld,
) -> None:
    await world.tick()
    unbounded = "\n".join(line for line in JOB.splitlines() if not line.startswith(("max_price", "max_hourly")))
    with pytest.raises(Unlikely, match="bids have no upper bound") as refused:
        await world.submit(unbounded)
    [price] = re.findall(r"Set max_price under \[spot\], such as (\"\$\d+\.\d\d\")", str(refused.value))
    await world.submit(unbounded + f"\n[spot]\nmax_price = {price}\n")
    await world.until_running()


@pytest.mark.slow
async def test_an_outbid_machine_comes_back_by_itself_and_the_job_goes_on(world: MithrilWorld) -> None:
    world.agents.total_steps = 1500
    lease = await world.running(JOB)
    world.take_others(lease)
    world.outbid(lease, "9", stay_s=500)
    await world.until(lambda job: job.main is not None and job.main.state is LeaseState.PAUSED, "it is outbid")
    await world.until_running()
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    (only,) = [each for each in await world.leases() if each.instance_id]
    assert only.id == lease.id
    assert world.bid(only).boots == 2


@pytest.mark.slow
async def test_an_outbid_machine_is_kept_by_a_raise_within_its_notice(world: MithrilWorld) -> None:
    world.agents.total_steps = 1500
    lease = await world.running(JOB.replace('"$3.00"', '"$20.00"').replace('"$9"', '"$90"'))
    world.take_others(lease)
    world.outbid(lease)
    await world.until(lambda job: job.main is not None and job.main.bid > lease.bid, "it is raised")
    assert (world.bid(lease).status, world.bid(lease).boots) == (BidStatus.PREEMPTING, 1)
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    (only,) = [each for each in await world.leases() if each.instance_id]
    assert (only.id, world.bid(only).boots) == (lease.id, 1)
    assert "lease.paused" not in await world.events()


@pytest.mark.slow
async def test_a_rival_below_the_limit_makes_the_machine_dearer_and_does_not_take_it(world: MithrilWorld) -> None:
    """The most that the job would pay was bid."""
    world.agents.total_steps = 1500
    lease = await world.running(JOB)
    world.take_others(lease)
    world.outbid(lease, "0.9")
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert (world.bid(lease).limit, world.bid(lease).boots) == (lease.bid, 1)
    assert len([each for each in await world.leases() if each.instance_id]) == 1


@pytest.mark.slow
async def test_a_bid_that_wins_nothing_is_withdrawn(world: MithrilWorld) -> None:
    """A rival comes between the look and the auction, and bids more than the job may pay."""
    await world.tick()
    await world.submit(JOB)
    await world.tick(2)
    (lease,) = await world.leases()
    world.outbid(lease, "9")
    await world.until(lambda job: all(each.id != lease.id for each in job.leases), "the bid is withdrawn")
    assert world.bid(lease).status is BidStatus.TERMINATED
    assert world.bid(lease).meter.total(world.sandbox.mithril.now) == 0
    await world.until_over()


@pytest.mark.slow
async def test_a_machine_that_is_moved_goes_on_under_its_lease(world: MithrilWorld) -> None:
    world.agents.total_steps = 1500
    lease = await world.running(JOB)
    world.sandbox.mithril.lifecycle.relocate(world.bid(lease))
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert len(world.bid(lease).machines) == 2
    assert len([each for each in await world.leases() if each.instance_id]) == 1


async def test_a_create_whose_answer_is_lost_is_found_and_used_or_ended(world: MithrilWorld) -> None:
    await world.tick()
    await world.emu("POST", "mithril/fault", on="create", kind="effect_then_reset", times=1)
    await world.submit(JOB)
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert world.open_bids() == []


@pytest.mark.slow
async def test_an_unrecorded_bid_is_ended_when_it_is_listed(world: MithrilWorld) -> None:
    """It would win, and win again, for ever."""
    await world.tick()
    await world.emu("POST", "mithril/fault", on="list", kind="stale_list", lag_s=1800, times=None)
    await world.emu("POST", "mithril/fault", on="create", kind="effect_then_reset", times=1)
    await world.submit(JOB)
    await world.tick(2)
    (late,) = world.open_bids()
    await world.until(lambda job: late.is_over, "the late bid is ended", most=400)
    await world.emu("DELETE", "mithril/faults")
    await world.until_over()


@pytest.mark.slow
async def test_a_restarted_daemon_goes_on_with_the_bid_that_it_has(world: MithrilWorld) -> None:
    world.agents.total_steps = 900
    lease = await world.running(JOB)
    await world.restart()
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert len([each for each in await world.leases() if each.instance_id]) == 1
    assert world.bid(lease).boots == 1


@pytest.mark.slow
async def test_the_free_start_of_a_machine_is_no_part_of_the_time_that_it_may_load(world: MithrilWorld) -> None:
    """Its market takes up to twenty minutes to start one; what is paid for begins after that."""
    world.sandbox.mithril.lifecycle.timings = Timings(start_s=1190)
    await world.tick()
    await world.submit(JOB)
    await world.tick(4)
    (lease,) = await world.leases()
    world.agents.deaf.add(lease.id)
    await world.tick(90, apart_s=20)
    assert (await world.lease(lease.id)).is_wanted, await world.story()
    world.agents.deaf.clear()
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED
    assert len([each for each in await world.leases() if each.instance_id]) == 1


@pytest.mark.slow
async def test_a_machine_that_was_stopped_before_its_first_heartbeat_is_deleted_and_replaced(
    world: MithrilWorld,
) -> None:
    """The user data runs at the first boot only: no later one brings an agent up."""
    await world.tick()
    await world.submit(JOB)
    await world.tick(2)
    (lease,) = await world.leases()
    world.agents.deaf.add(lease.id)
    await world.until(lambda job: job.main is not None and job.main.has_run, "its machine runs")
    world.take_others(lease)
    world.outbid(lease, "9", stay_s=500)
    await world.until(lambda job: all(each.id != lease.id for each in job.leases), "it is deleted")
    assert world.bid(lease).status is BidStatus.TERMINATED
    assert world.bid(lease).boots == 1, "it was not paid for again"
    job = await world.until_over()
    assert job.status is JobStatus.SUCCEEDED


@pytest.mark.slow
async def test_where_going_saves_nothing_the_permit_lasts_as_long_as_the_machine(world: MithrilWorld) -> None:
    world.agents.total_steps = 900
    lease = await world.running(JOB)
    assert (await world.lease(lease.id)).permit.ttl_s == pytest.approx(
        (lease.not_after - world.clock.now()).total_seconds(), abs=120
    )
    assert "export AUTOPILOT_STAYS=1" in world.bid(lease).order.startup_script
    await world.until_over()


@pytest.mark.slow
async def test_after_an_outage_the_ledger_says_what_the_market_billed(world: MithrilWorld) -> None:
    """Unobserved time is booked at the limit; the machine's bill corrects it."""
    world.agents.total_steps = 4000
    lease = await world.running(JOB)
    await world.until_checkpoint()
    for _ in range(2):
        world.clock.advance(1080)
        await world.tick(4)
    by_our_clock = sum((await world.spend()).values(), D(0))
    assert by_our_clock > world.billed() * D("1.5"), "the limit is well above the price"
    await world.until_over()
    (posted,) = (await world.spend()).values()
    assert abs(posted - world.billed()) < D("0.001")
    assert world.bid(lease).boots == 1


async def test_a_bid_that_was_not_watched_and_never_won_costs_nothing_in_the_end(world: MithrilWorld) -> None:
    await world.tick()
    await world.submit(JOB)
    await world.tick(2)
    (lease,) = await world.leases()
    world.outbid(lease, "9")
    world.clock.advance(1080)
    await world.until(lambda job: all(each.id != lease.id for each in job.leases), "the bid is withdrawn")
    world.sandbox.mithril.pool_of(world.bid(lease)).rivals.clear()
    await world.until_over()
    assert (await world.spend()).get(lease.instance_id or "", D(0)) == 0
