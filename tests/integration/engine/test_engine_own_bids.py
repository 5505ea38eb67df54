"""Several of our own jobs on one market: our bids are no competition, and we never bid against ourselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.job import JobStatus
from autopilot_lab.sandbox.mithril.pools import AuctionPool
from tests.integration.engine.engine_world import a_world
from tests.integration.engine.mithril_world import JOB, MithrilWorld
from tests.integration.engine.test_engine_lost_bids import SPOT_ONLY, only_host

D = Decimal
MINIMUM = D("1.00")
MARKUP = D("1.05")
"""What the rule bids over the least that wins; a limit is not what is paid."""
PATIENT = JOB.replace('max_hourly = "$3.00"', "").replace(
    '[budget]\ntotal = "$9"', '[spot]\nmax_price = "$20"\n[budget]\ntotal = "$60"'
)
SHORT = PATIENT.replace('estimate = "10m"', 'estimate = "1h"')


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MithrilWorld]:
    """There are no other bidders: a rival holds all but the one pool."""
    async with a_world(tmp_path, kind=MithrilWorld) as made:
        assert isinstance(made, MithrilWorld)
        made.agents.total_steps = 300
        await made.tick()
        yield made


def only_pool(world: MithrilWorld, slots: int) -> AuctionPool:
    """All others are dear for good."""
    market = world.sandbox.mithril
    a100 = [pool for pool in market.pools.values() if pool.spec.type.name == "a100-80gb.sxm.1x"]
    pool, *others = a100
    pool.slots, pool.minimum = slots, MINIMUM
    for each in others:
        market.add_rival(each, D(900), each.slots, None)
    for each in a100:
        market.hold_round(each)
    return pool


async def play(world: MithrilWorld, pool: AuctionPool, texts: list[str], most: int = 800) -> list[str]:
    """All jobs to their end, each price paid held against the market's least. Returns their ids."""
    ids = [(await world.submit(text, accept_any=True)).id for text in texts]
    for _ in range(most):
        await world.tick()
        assert pool.cleared.price <= MINIMUM * MARKUP, f"we pay ${pool.cleared.price}/h without other bidders"
        async with world.store.snapshot() as uow:
            jobs = [job for job_id in ids if (job := await uow.jobs.find(job_id)) is not None]
        if all(job.status.is_final for job in jobs):
            break
    assert [job.status for job in jobs] == [JobStatus.SUCCEEDED] * len(ids), await world.story()
    return ids


@pytest.mark.slow
async def test_two_jobs_for_one_machine_have_it_one_after_the_other_at_its_least(world: MithrilWorld) -> None:
    pool = only_pool(world, 1)
    await play(world, pool, [SHORT.replace("train", "one", 1), SHORT.replace("train", "two", 1)])
    assert len(world.sandbox.mithril.bids) == 2, "no bid is made that cannot win"


async def test_four_jobs_for_two_machines_pay_the_least(world: MithrilWorld) -> None:
    pool = only_pool(world, 2)
    await play(world, pool, [SHORT.replace("train", name, 1) for name in ("one", "two", "three", "four")])
    assert len(world.sandbox.mithril.bids) == 4


@pytest.mark.slow
async def test_an_array_of_four_tasks_has_two_free_machines_at_their_least(world: MithrilWorld) -> None:
    pool = only_pool(world, 2)
    (array_id,) = await play(world, pool, [SHORT.replace("train", "many", 1) + "[array]\ncount = 4\n"])
    async with world.store.snapshot() as uow:
        tasks = (await uow.jobs.count_tasks([array_id]))[array_id]
    assert (tasks.succeeded, tasks.begun) == (4, 4)
    assert len(world.sandbox.mithril.bids) <= 4


async def test_what_we_hold_is_no_floor_and_is_recorded_as_none(world: MithrilWorld) -> None:
    pool = only_pool(world, 1)
    world.agents.total_steps = 3000
    await world.running(SHORT, accept_any=True)
    query = (await world.job()).spec.query
    await world.tick(30)
    mine = [offer for offer in await world.provider.offers(query) if offer.floor is not None and offer.floor < 900]
    assert mine == []
    now = world.clock.now()
    async with world.store.snapshot() as uow:
        seen = await uow.prices.list_by_gpu("A100 SXM4", now.replace(year=2000), now, provider="mithril")
    here = f"{pool.spec.region}/{pool.spec.type.id}"
    floors = [each.floor for each in seen if each.floor is not None and each.machine_id == here]
    assert max(floors, default=D(0)) <= MINIMUM * MARKUP, "our own limit is on record as the market's floor"


@pytest.mark.slow
async def test_a_bid_that_a_rival_beat_does_not_set_what_our_other_machine_pays(world: MithrilWorld) -> None:
    """The rival pays more than we ever would: one of ours goes, the other pays the least again."""
    pool = only_pool(world, 2)
    long = SHORT.replace('estimate = "1h"', 'estimate = "6h"')
    world.agents.total_steps = 3000
    ids = [(await world.submit(long.replace("train", name, 1), accept_any=True)).id for name in ("one", "two")]
    for _ in range(80):
        await world.tick()
        async with world.store.snapshot() as uow:
            jobs = [job for job_id in ids if (job := await uow.jobs.find(job_id)) is not None]
        if all(job.status is JobStatus.RUNNING for job in jobs):
            break
    assert [job.status for job in jobs] == [JobStatus.RUNNING] * 2
    world.sandbox.mithril.add_rival(pool, D(90), 1, None)
    await world.tick(60)
    assert len(world.open_bids()) == 1, "what lost was withdrawn"
    assert pool.cleared.price == MINIMUM


async def test_a_new_daemon_takes_the_bid_of_the_one_before_for_no_floor(tmp_path: Path) -> None:
    """On vast.ai a list shows it for a quarter of an hour after the machine is left, and the record would keep it."""
    async with a_world(tmp_path) as vast:
        vast.market.echo_lasts_s = 900.0
        only_host(vast, "0.120")
        await vast.running(SPOT_ONLY)
        await vast.until(lambda job: job.status.is_final, "the job is over")
        await vast.tick(2)
        assert vast.ours() == []
        await vast.restart()
        await vast.submit(SPOT_ONLY.replace("train", "second", 1))
        lease = (await vast.until(lambda job: job.main is not None, "a machine", most=80)).main
        assert lease is not None
        assert lease.bid == D("0.126"), "the least and a markup, as the first one"
        now = vast.clock.now()
        async with vast.store.snapshot() as uow:
            seen = await uow.prices.list_by_gpu("RTX 4090", now.replace(year=2000), now, provider="vastai")
        here = [each.floor for each in seen if each.machine_id == lease.machine_id and each.floor is not None]
        assert set(here) == {D("0.120")}
