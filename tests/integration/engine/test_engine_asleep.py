"""Machines under a permit of hours, while the daemon sleeps: what they do, what is held back, and what is booked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.engine.certification import CertifyRules
from autopilot.policy.budget import commitment
from tests.integration.engine import mithril_world, nebius_world
from tests.integration.engine.engine_world import JOB, D, World, a_world
from tests.integration.engine.mithril_world import MithrilWorld
from tests.integration.engine.nebius_world import NebiusWorld
from tests.integration.engine.test_engine_stop_causes import RunpodWorld

HOUR_S = 3600
TTL_S = 6 * HOUR_S
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "20h"')


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as world:
        give_long_permits(world)
        world.agents.total_steps = 1_000_000
        yield world


def give_long_permits(world: World, ttl_s: int = TTL_S) -> None:
    world.engine.config = replace(world.engine.config, permit_ttl_s=ttl_s)


async def at_work(world: World, text: str = LONG_JOB) -> Lease:
    """With a checkpoint, and every permit as long as it becomes."""
    lease = await world.running(text, accept_any=True)
    await world.until_checkpoint()
    await world.tick(10)
    return await world.lease(lease.id)


async def sleep(world: World, hours: float) -> None:
    """The daemon does nothing; its machines work and save on."""
    for _ in range(round(hours * 12)):
        world.clock.advance(300)
        world.sandbox.synchronise()
        await world.agents.act(world.clock.now())


def permit_left_s(world: World, lease: Lease) -> float:
    assert lease.permit.renewed_at is not None
    assert lease.permit.ttl_s is not None
    return (lease.permit.renewed_at - world.clock.now()).total_seconds() + lease.permit.ttl_s


def billed(world: World, lease: Lease) -> Decimal:
    cost = world.instance(lease).meter.total(world.clock.now())
    return D(cost.numerator) / D(cost.denominator)


async def posted(world: World) -> Decimal:
    return sum((await world.spend()).values(), D(0))


@pytest.mark.slow
async def test_a_machine_works_on_for_hours_and_its_daemon_goes_on_with_it(world: World) -> None:
    lease = await at_work(world)
    assert [note for note in world.plan["notes"] if "a machine on vastai works on for up to 6 h" in note]
    assert lease.permit.ttl_s == TTL_S
    assert commitment(lease, Params()) >= lease.burn_upper * TTL_S / HOUR_S
    before = world.agents.of(lease.instance_id).step
    await sleep(world, 3)
    await world.tick(4)
    assert world.creates() == 1
    job = await world.job()
    assert (job.status, job.main and job.main.id) == (JobStatus.RUNNING, lease.id)
    assert job.checkpoint is not None
    assert (job.checkpoint.step or 0) > before + 2 * HOUR_S, "what it saved meanwhile is the newest checkpoint"
    assert await posted(world) >= billed(world, lease) - D("0.02")
    world.agents.total_steps = before
    await world.until_over()


async def test_one_that_ended_itself_at_its_permit_s_end_is_booked_to_that(world: World) -> None:
    lease = await at_work(world)
    await sleep(world, permit_left_s(world, lease) / HOUR_S)
    world.clock.advance(60)
    world.market.destroy(int(lease.instance_id or 0), "the machine itself")
    world.clock.advance(2 * HOUR_S)
    await world.tick(4, apart_s=30)
    assert -D("0.02") < await posted(world) - billed(world, lease) < D("0.03"), "the sleep itself was two hours longer"
    held = await world.lease(lease.id)
    assert held.is_over
    assert (await world.job()).status is not JobStatus.PARKED, await world.story()
    world.agents.total_steps = 60
    await world.until_over()


async def test_a_budget_shortens_permits_and_half_of_what_is_left_stays_free(world: World) -> None:
    lease = await at_work(world, LONG_JOB.replace('total = "$9"', 'total = "$1.50"'))
    assert lease.permit.ttl_s is not None
    assert 900 < lease.permit.ttl_s < TTL_S
    job = await world.job()
    assert job.spec.budget is not None
    committed = sum((commitment(each, Params()) for each in job.leases), job.spent)
    assert committed <= job.spec.budget * D("0.75")
    await sleep(world, permit_left_s(world, lease) / HOUR_S)
    assert billed(world, lease) <= job.spec.budget


@pytest.mark.slow
async def test_several_jobs_share_what_the_day_s_limit_leaves(world: World) -> None:
    world.limits = replace(world.limits, day=D(4))
    await world.restart()
    give_long_permits(world)
    jobs = []
    for name in ("one", "two", "three"):
        await world.running(LONG_JOB.replace('name = "train"', f'name = "{name}"'), accept_any=True)
        jobs.append(world.job_id)
    await world.tick(20)
    async with world.store.snapshot() as uow:
        leases = [lease for job in await uow.jobs.list_open() for lease in job.leases if not lease.is_over]
    assert len(leases) == 3
    assert all((lease.permit.ttl_s or 0) >= 600 for lease in leases), [lease.permit for lease in leases]
    held = sum((commitment(lease, Params()) for lease in leases), await posted(world))
    assert held <= 4


async def test_a_machine_that_was_never_heard_has_a_short_permit(world: World) -> None:
    await world.tick()
    await world.submit(LONG_JOB, accept_any=True)
    await world.until(lambda job: any(each.permit.ttl_s for each in job.leases), "the first permit")
    (lease,) = await world.leases()
    assert lease.permit.ttl_s == 900


async def test_a_machine_with_a_short_permit_of_the_version_before_is_taken_over(world: World) -> None:
    give_long_permits(world, 900)
    lease = await at_work(world)
    assert lease.permit.ttl_s == 900
    await world.restart()
    give_long_permits(world)
    await world.tick(8)
    again = await world.lease(lease.id)
    assert (again.permit.ttl_s, again.instance_id, world.creates()) == (TTL_S, lease.instance_id, 1)
    await world.restart()  # with the setting of before: what its machine holds stays held
    await world.tick(8)
    after = await world.lease(lease.id)
    assert after.permit.ttl_s is not None
    assert TTL_S - 600 < after.permit.ttl_s <= TTL_S
    assert permit_left_s(world, after) >= permit_left_s(world, again) - 1


async def test_a_market_without_a_certificate_gives_short_ones(tmp_path: Path) -> None:
    """Also where its operator does without one: the promise that a machine ends itself is not proved there."""
    async with a_world(tmp_path) as world:
        world.certify_rules = CertifyRules(weighed_on=frozenset({"vastai"}))
        await world.restart()
        give_long_permits(world)
        world.agents.total_steps = 1_000_000
        assert (await at_work(world)).permit.ttl_s == 900


async def test_one_that_is_outbid_meanwhile_is_held_back_for_by_the_day(world: World) -> None:
    long = await at_work(world)
    short = replace(long, permit=replace(long.permit, ttl_s=900))
    more = commitment(long, Params()) - commitment(short, Params())
    disk_of_a_day = long.storage_rate * (D(24) - D((long.billing.tail or timedelta(hours=24)) / timedelta(hours=1)))
    assert more >= long.burn_upper * TTL_S / HOUR_S + disk_of_a_day


@pytest.mark.slow
async def test_one_that_is_outbid_while_the_daemon_sleeps_is_found_again(world: World) -> None:
    lease = await at_work(world)
    await sleep(world, 1)
    world.rival(lease, "1.5")
    await sleep(world, 2)
    done = world.agents.of(lease.instance_id).saved_step
    assert done > HOUR_S - 300
    world.agents.total_steps = done + 600
    await world.tick()
    assert (await world.job()).spent <= D(9)
    await world.until_over()


async def test_a_pod_of_runpod_has_a_long_permit(tmp_path: Path) -> None:
    async with a_world(tmp_path, kind=RunpodWorld) as world:
        give_long_permits(world)
        world.agents.total_steps = 1_000_000
        lease = await at_work(world)
        assert lease.permit.ttl_s == TTL_S
        await sleep(world, 3)
        await world.tick(4)
        assert (await world.lease(lease.id)).is_wanted
        job = await world.job()
        assert job.checkpoint is not None
        assert (job.checkpoint.step or 0) > 2 * HOUR_S


@pytest.mark.slow
async def test_a_machine_that_only_powers_off_has_short_permits(tmp_path: Path) -> None:
    async with a_world(tmp_path, kind=NebiusWorld, nebius_port=0) as world:
        give_long_permits(world)
        world.agents.total_steps = 1_000_000
        assert (await at_work(world, nebius_world.JOB)).permit.ttl_s == 900


async def test_where_nothing_ends_the_bill_the_setting_changes_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path, kind=MithrilWorld) as world:
        world.agents.total_steps = 1_000_000
        short = await at_work(world, mithril_world.JOB)
        give_long_permits(world)
        await world.tick(8)
        again = await world.lease(short.id)
        assert commitment(again, Params()) == commitment(short, Params())
