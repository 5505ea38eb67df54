"""Unwatched time: how it is booked, and what happens to a job whose money it seems to have used."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from autopilot.domain.agent_state import AgentState
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine import mailbox
from autopilot.mailbox.keys import heartbeat_key, manifest_key, part_key
from autopilot.mailbox.report_shapes import Heartbeat, Manifest
from autopilot.policy.budget import unobserved_cost
from tests.checkpoint_data import a_part, an_index
from tests.integration.engine.engine_agents import Agent
from tests.integration.engine.engine_world import JOB, D, World
from tests.patience import PATIENCE_S

PERMIT_S = 900
LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "5h"')


async def posted(world: World) -> Decimal:
    return sum((await world.spend()).values(), D(0))


async def sleep_past_the_permit(world: World, lease: Lease, rest_s: float, *, destroys: bool = False) -> None:
    """The daemon sleeps; its machine ends itself when its permit is over."""
    renewed_at = (await world.lease(lease.id)).permit.renewed_at
    assert renewed_at is not None
    world.clock.advance((renewed_at - world.clock.now()).total_seconds() + PERMIT_S + 90)
    world.sandbox.synchronise()
    if destroys:
        world.market.destroy(int(lease.instance_id or 0), "the machine itself")
    else:
        world.market.stop(int(lease.instance_id or 0))
    world.clock.advance(rest_s)


def billed(world: World, lease: Lease) -> Decimal:
    cost = world.instance(lease).meter.total(world.clock.now())
    return D(cost.numerator) / D(cost.denominator)


@pytest.mark.parametrize("destroys", [False, True], ids=["stopped", "destroyed"])
async def test_a_machine_that_ended_itself_is_not_booked_for_the_rest_of_the_sleep(
    world: World, destroys: bool
) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await sleep_past_the_permit(world, lease, 7200, destroys=destroys)
    await world.tick(3 if destroys else 1, apart_s=30)
    more = await posted(world) - billed(world, lease)
    assert D(0) <= more + D("0.01"), "never less than it cost, but for what is not yet worth a cent"
    assert more < D("0.03"), "the sleep itself was two hours"


async def test_a_machine_that_still_runs_is_booked_for_all_of_the_sleep(world: World) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    world.clock.advance(7200)
    await world.tick()
    assert await posted(world) >= billed(world, lease) - D("0.01")


async def test_a_machine_that_woke_again_meanwhile_is_booked_for_all_of_the_sleep(world: World) -> None:
    """It was outbid, came back, and received nothing: its newest report is of another boot."""
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    world.market.stop(int(lease.instance_id or 0))
    world.clock.advance(3600)
    world.sandbox.synchronise()
    world.market.start(int(lease.instance_id or 0))
    world.clock.advance(60)
    world.sandbox.synchronise()
    await world.agents.act(world.clock.now())
    world.clock.advance(1800)
    world.sandbox.synchronise()
    world.market.stop(int(lease.instance_id or 0))
    await world.tick()
    assert await posted(world) >= billed(world, lease)
    assert await posted(world) > lease.bid * D("1.4")


async def test_nothing_is_posted_for_a_silent_market_before_it_speaks_again(world: World) -> None:
    """Limits count it meanwhile; the ledger takes nothing back, so it waits until somebody has looked."""
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await world.fault("list", "http_503", times=None)
    before = await posted(world)
    await world.tick(30, apart_s=60)
    assert await posted(world) == before
    held = await world.lease(lease.id)
    assert unobserved_cost(held, world.clock.now(), Params()) >= lease.burn_upper * D("0.5")
    await world.clear_faults()
    await world.tick(2)
    assert await posted(world) >= billed(world, lease) - D("0.01")


@pytest.mark.slow
async def test_a_silent_market_whose_machine_ended_itself_counts_to_the_end_of_its_permit(world: World) -> None:
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    await world.fault("list", "http_503", times=None)
    await world.tick(20, apart_s=60)
    await sleep_past_the_permit(world, lease, 3600)
    await world.clear_faults()
    await world.tick()
    more = await posted(world) - billed(world, lease)
    assert -D("0.01") <= more < D("0.03")
    assert (await world.job()).status is not JobStatus.PARKED


# --- out of money, as it seems


def with_budget(total: str) -> str:
    return LONG_JOB.replace('total = "$9"', f'total = "{total}"')


async def wake_unwatched(world: World, lease: Lease, *, destroys: bool = False) -> None:
    """It woke once while unwatched, so its permit is no bound; then it ended itself."""
    number = int(lease.instance_id or 0)
    world.market.stop(number)
    world.clock.advance(3000)
    world.sandbox.synchronise()
    world.market.start(number)
    world.clock.advance(60)
    world.sandbox.synchronise()
    await world.agents.act(world.clock.now())
    if destroys:
        world.market.destroy(number, "the machine itself")
    else:
        world.market.stop(number)
    world.clock.advance(4000)
    await world.tick()


async def a_job_without_money_by_our_clock(world: World) -> Lease:
    world.agents.total_steps = 100_000
    lease = await world.running(with_budget("$0.50"), accept_any=True)
    await world.until_checkpoint()
    await wake_unwatched(world, lease)
    job = await world.job()
    left_over = job.spec.budget
    assert left_over is not None
    assert await posted(world) > left_over - D("0.05"), "it seems to be used up"
    return lease


@pytest.mark.slow
async def test_a_stopped_machine_is_kept_until_the_bill_tells_what_the_gap_cost(world: World) -> None:
    lease = await a_job_without_money_by_our_clock(world)
    await world.tick(3, apart_s=60)
    assert (await world.job()).status is not JobStatus.PARKED
    assert world.instance(lease).destroyed_at is None, "its disk is kept"
    why = (await world.jobs.why("train", limit=1))["decisions"][0]["notes"]
    assert "bill_awaited" in {note["topic"] for note in why}
    assert "bid.intended" not in await world.events()
    await world.tick(70, apart_s=60)
    more = await posted(world) - billed(world, lease)
    assert abs(more) < D("0.05"), "the ledger follows the bill while the machine is stopped"
    job = await world.job()
    assert job.status is not JobStatus.PARKED, f"the money is there; {await world.story()}"
    world.agents.total_steps = 60
    await world.until_over()


@pytest.mark.slow
async def test_a_stopped_machine_is_not_kept_for_a_bill_that_does_not_come(world: World) -> None:
    lease = await a_job_without_money_by_our_clock(world)
    await world.fault("charges", "http_503", times=None)
    await world.tick(100, apart_s=60)
    assert (await world.job()).status is JobStatus.PARKED
    assert world.instance(lease).destroyed_at is not None
    await world.clear_faults()
    await world.until_settled()


async def test_a_released_hold_is_money_back_although_its_owner_has_resumed_too_early(world: World) -> None:
    """The bill gave it back at its first look; limits hold it until the second one, an hour later."""
    world.agents.total_steps = 100_000
    lease = await world.running(with_budget("$0.50"), accept_any=True)
    await world.until_checkpoint()
    await wake_unwatched(world, lease, destroys=True)
    await world.until(lambda job: job.status is JobStatus.PARKED, "the job is parked", most=20, apart_s=60)
    await world.tick(10, apart_s=60)
    assert await posted(world) - billed(world, lease) <= D("0.01"), "the bill has given it back"
    await world.jobs.resume("train")
    await world.tick(2, apart_s=60)
    assert (await world.job()).status is JobStatus.PARKED, "it is still held"
    await world.until(lambda job: job.status is not JobStatus.PARKED, "there is room again", 70, apart_s=60)
    async with world.store.snapshot() as uow:
        reasons = [dict(record.fields).get("reason") for record in await uow.events.list_after()]
    assert Reason.ROOM_AGAIN in reasons
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)


async def test_the_last_save_of_a_machine_that_has_gone_counts_however_long_it_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came while the daemon slept. Reading it takes longer than it takes to be sure that its machine is gone."""
    world.agents.total_steps = 100_000
    lease = await world.running(LONG_JOB)
    await world.until_checkpoint()
    before = (await world.job()).checkpoint
    assert before is not None
    agent = world.agents.of(lease.instance_id)
    await sleep_past_the_permit(world, lease, 600, destroys=True)
    number = agent.next_checkpoint
    await put_last_save(world, lease, number, agent)
    size, may_end = world.blobs.size, asyncio.Event()

    async def slow_size(key: str) -> int | None:
        if f"/ckpt/{number}/" in key:
            await may_end.wait()
        return await size(key)

    monkeypatch.setattr(world.blobs, "size", slow_size)
    monkeypatch.setattr(mailbox, "SEARCH_WAIT_REAL_S", 0.01)
    await world.tick(4, apart_s=30)
    assert (await world.job()).checkpoint == before
    may_end.set()
    monkeypatch.setattr(mailbox, "SEARCH_WAIT_REAL_S", PATIENCE_S)
    await world.tick(4, apart_s=30)
    after = (await world.job()).checkpoint
    assert after is not None
    assert (after.lease_id, after.number) == (lease.id, number)
    assert (await world.lease(lease.id)).is_over
    assert await posted(world) - billed(world, lease) < D("0.03")


async def put_last_save(world: World, lease: Lease, number: int, agent: Agent) -> None:
    """And the last heartbeat, which names it."""
    contents = (an_index("model", 5), b"model")
    for i, content in enumerate(contents):
        await world.blobs.put(part_key(agent.job_id, lease.id, number, i), content)
    manifest = Manifest(agent.run_epoch, number, tuple(a_part(i, content) for i, content in enumerate(contents)))
    await world.blobs.put(manifest_key(agent.job_id, lease.id, number), manifest.to_json())
    beat = Heartbeat(agent.boot, agent.seq + 1, agent.run_epoch, 1, AgentState.EXPIRED, last_checkpoint=number)
    await world.blobs.put(heartbeat_key(agent.job_id, lease.id), beat.to_json())
