"""What machines show of themselves is remembered over jobs and restarts, and priced; a slow one is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.hosts import HostRecord
from autopilot.domain.reasons import Reason
from tests.integration.engine import mithril_world, nebius_world
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.mithril_world import MithrilWorld
from tests.integration.engine.nebius_world import NebiusWorld
from tests.integration.engine.test_engine_stop_causes import RunpodWorld

HOUR_AND_A_HALF = """
name = "long"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "90m"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "5m"
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        await made.tick()
        yield made


async def remembered(world: World) -> dict[str, HostRecord]:
    async with world.store.snapshot() as uow:
        return {record.machine_id: record for record in await uow.hosts.list()}


async def block_all_but(world: World, machine_id: str) -> None:
    async with world.store.transaction() as uow:
        kept = {record.machine_id: record for record in await uow.hosts.list()}
        now = world.clock.now()
        others = [str(each) for each in world.market.machines if str(each) != machine_id]
        blank = HostRecord("vastai", "", "", "", now)
        await uow.hosts.save(
            replace(kept.get(each, replace(blank, machine_id=each)), blocked_at=now) for each in others
        )


@pytest.mark.slow
async def test_what_one_job_learns_of_a_machine_the_next_one_knows_after_a_restart(world: World) -> None:
    await world.fault("create", "stuck_loading")
    await world.submit()
    await world.until(lambda job: job.launches == 2, "another machine", apart_s=60)
    first, second = await world.leases()
    assert first.reason is Reason.STUCK_LOADING
    await world.until_over()
    known = await remembered(world)
    assert (known[first.machine_id].failed, known[first.machine_id].launches) == (1.0, 1.0)
    assert known[first.machine_id].last_fault is Reason.STUCK_LOADING
    good = known[second.machine_id]
    assert (good.failed, round(good.launches, 1)) == (0.0, 1.0)
    assert [image for image, _ in good.loads] == ["some/image:1"]
    await world.restart()
    await world.submit(JOB.replace('"train"', '"next"'))
    lease = await world.until_running()
    assert lease.machine_id != first.machine_id, "the cheapest of the list does not come up"


@pytest.mark.slow
async def test_the_only_machine_is_tried_again(world: World) -> None:
    await world.fault("create", "stuck_loading")
    await world.submit()
    await world.until(lambda job: job.launches == 1, "a machine")
    (only,) = await world.leases()
    await block_all_but(world, only.machine_id)
    await world.until(lambda job: job.launches == 2, "the same machine again", apart_s=60)
    first, second = await world.leases()
    assert (first.machine_id, first.reason) == (second.machine_id, Reason.STUCK_LOADING)
    await world.until_over()


async def test_a_blocked_machine_is_not_rented_and_one_that_runs_there_goes_on(world: World) -> None:
    lease = await world.running()
    async with world.store.transaction() as uow:
        await uow.hosts.save(
            [HostRecord("vastai", lease.machine_id, "", "", world.clock.now(), blocked_at=world.clock.now())]
        )
    await world.until_over()
    assert [each.machine_id for each in await world.leases()] == [lease.machine_id]
    await world.submit(JOB.replace('"train"', '"next"'))
    other = await world.until_running()
    assert other.machine_id != lease.machine_id


async def prepare_long(world: World) -> None:
    world.agents.tell_progress = True
    world.agents.total_steps = 90 * 60
    await world.tick()
    await world.submit(HOUR_AND_A_HALF)


async def cost_undisturbed(root: Path) -> Decimal:
    """Dollars of the same job on the same market, its loading included, where no machine slows down."""
    async with a_world(root) as world:
        await prepare_long(world)
        job = await world.until(lambda job: job.status.is_final, "the end", most=600)
        assert len(await world.leases()) == 1, await world.story()
        return job.spent


@pytest.mark.slow
async def test_a_throttled_machine_is_left_within_twenty_minutes_and_not_taken_again(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = await cost_undisturbed(tmp_path_factory.mktemp("undisturbed"))
    await prepare_long(world)
    first = await world.until_running()
    await world.tick(80)  # 20 minutes at its pace
    world.agents.pace_of[first.machine_id] = 0.1
    began = world.clock.now()
    await world.until(lambda job: job.main is not None and job.main.id != first.id, "it is left")
    assert world.clock.now() - began <= timedelta(minutes=20)
    assert "machine.slowed" in await world.events()
    job = await world.until(lambda job: job.status.is_final, "the end", most=600)
    leases = await world.leases()
    assert [lease.machine_id == first.machine_id for lease in leases] == [True, False], await world.story()
    assert job.spent <= Decimal("1.5") * undisturbed, job.spent / undisturbed
    assert (await remembered(world))[first.machine_id].pace == pytest.approx(0.1, abs=0.05)
    assert dict(job.paces)["RTX 4090:1"] == pytest.approx(Decimal("0.6667"), abs=Decimal("0.05"))
    await world.restart()
    await world.submit(JOB.replace('"train"', '"next"'))
    other = await world.until_running()
    assert other.machine_id != first.machine_id, "the same day"


@pytest.mark.slow
async def test_a_job_that_slows_by_itself_moves_once(world: World) -> None:
    await prepare_long(world)
    await world.until_running()
    await world.tick(60)
    world.agents.pace_of = {str(each): 0.2 for each in world.market.machines}
    await world.tick(400)
    job = await world.job()
    assert len(await world.leases()) == 2, await world.story()
    assert dict(job.paces)["RTX 4090:1"] == pytest.approx(Decimal("0.1333"), abs=Decimal("0.03"))


@pytest.mark.slow
async def test_without_progress_nothing_is_known_and_nothing_done(world: World) -> None:
    await prepare_long(world)
    world.agents.tell_progress = False
    first = await world.until_running()
    world.agents.pace_of[first.machine_id] = 0.1
    await world.tick(120)
    assert [lease.id for lease in await world.leases()] == [first.id]
    assert "machine.slowed" not in await world.events()


POOLS: dict[str, tuple[type[World], str]] = {
    "runpod": (RunpodWorld, JOB),
    "nebius": (NebiusWorld, nebius_world.JOB),
    "mithril": (MithrilWorld, mithril_world.JOB),
}


@pytest.mark.slow
@pytest.mark.parametrize("market", POOLS)
async def test_a_throttled_machine_of_a_pool_is_left_and_says_nothing_of_the_pool(tmp_path: Path, market: str) -> None:
    kind, text = POOLS[market]
    async with a_world(tmp_path, kind=kind, nebius_port=0) as world:
        world.agents.tell_progress, world.agents.total_steps = True, 90 * 60
        await world.tick()
        await world.submit(text.replace('"10m"', '"90m"').replace('"1m"', '"5m"'))
        first = await world.until(lambda job: job.step > 0 and job.main is not None, "it runs")
        assert first.main is not None
        lease = first.main
        await world.tick(60)
        world.agents.pace_of[lease.id] = 0.1
        began = world.clock.now()
        await world.until(lambda job: job.main is not None and job.main.id != lease.id, "it is left")
        assert world.clock.now() - began <= timedelta(minutes=20), await world.story()
        await world.until(lambda job: job.status.is_final, "the end", most=600)
        assert len(await world.leases()) == 2, await world.story()
        assert {record.pace for record in (await remembered(world)).values()} == {None}
