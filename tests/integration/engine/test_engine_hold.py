"""A machine that stays after the last failed attempt: entered, given back, and gone with its time or its money."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta

import pytest

from autopilot.answers.models.jobs import ListQuery
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot.mailbox.exec_answers import ExecAnswer
from autopilot.mailbox.keys import orders_key
from tests.integration.engine.engine_world import JOB, D, World
from tests.patience import eventually

HELD = JOB + '[retry]\nmax_attempts = 1\n[debug]\nhold = "30m"\n'
MINUTES_30 = timedelta(minutes=30)


async def fail(world: World, text: str = HELD) -> Job:
    """To the failure of the job's only attempt."""
    world.agents.total_steps, world.agents.exit_code = 30, 1
    await world.tick()
    await world.submit(text)
    return await world.until(lambda job: job.status is JobStatus.FAILED, "the job has failed")


async def on_hold(world: World) -> Lease:
    job = await fail(world)
    assert job.on_hold is not None, await world.story()
    return job.on_hold


async def ended(world: World) -> Lease:
    (lease,) = await world.leases()
    return lease


@pytest.mark.slow
async def test_the_outcome_is_final_and_the_machine_stays_until_its_time_is_over(world: World) -> None:
    lease = await on_hold(world)
    failed = await world.job()
    assert failed.finished_at is not None
    assert lease.held_until == failed.finished_at + MINUTES_30
    while world.clock.now() < lease.held_until:
        (instance,) = world.ours()
        assert instance.id == int(lease.instance_id or 0)
        await world.tick()
    assert (await world.job()).finished_at == failed.finished_at
    assert (await world.lease(lease.id)).permit.seq > lease.permit.seq + 20
    await world.until_settled()
    gone = await ended(world)
    assert gone.reason is Reason.HOLD_OVER
    assert world.creates() == 1
    names = await world.events()
    assert (names.count("lease.held"), names.count("job.failed")) == (1, 1)
    billed = sum((await world.spend()).values())
    assert billed > lease.bid * D("0.5")  # $/h, for half an hour at the least


async def test_a_command_runs_on_a_machine_that_is_held(world: World) -> None:
    lease = await on_hold(world)
    await world.tick(3)
    world.agents.exec_answer = ExecAnswer(0, b"core dumped\n", False, "exited")
    call = asyncio.create_task(world.jobs.execs.call(world.job_id, "ls", 60, os.getuid()))

    async def is_ordered() -> bool:
        return bool(json.loads(await world.blobs.get(orders_key(world.job_id, lease.id)) or b"{}")["exec"])

    await eventually(is_ordered, "the command in the orders")
    await world.agents.act(world.clock.now())
    assert (await call)["output"] == "core dumped\n"
    assert (await world.job()).status is JobStatus.FAILED


@pytest.mark.parametrize("command", ["release", "cancel"])
async def test_its_owner_gives_it_back(world: World, command: str) -> None:
    await on_hold(world)
    await world.tick(4)
    assert [job["held_until"] for job in (await world.jobs.overview(ListQuery()))["jobs"]] != [None]
    await getattr(world.jobs, command)(world.job_id)
    await world.tick(2)
    assert world.ours() == []
    await world.until_settled()
    assert (await ended(world)).reason is Reason.USER_RELEASED
    assert (await world.job()).status is JobStatus.FAILED
    assert (await world.jobs.overview(ListQuery()))["jobs"] == []
    with pytest.raises(UserError, match="no machine of job train is held"):
        await world.jobs.release(world.job_id)


async def test_a_daemon_that_is_killed_during_a_hold_leaves_it_to_the_next_one(world: World) -> None:
    lease = await on_hold(world)
    await world.tick(8)
    await world.restart()
    await world.tick(8)
    assert (await world.job()).on_hold is not None
    assert len(world.ours()) == 1
    await world.restart()
    world.clock.advance(1800)
    await world.tick(3)
    assert world.ours() == []
    await world.until_settled()
    assert (await world.lease(lease.id)).reason is Reason.HOLD_OVER


async def test_a_machine_that_is_outbid_while_it_is_held_is_given_back(world: World) -> None:
    lease = await on_hold(world)
    world.rival(lease, "2")
    await world.tick(4)
    assert world.ours() == []
    await world.until_settled()
    assert (await ended(world)).reason is Reason.OUTBID
    assert world.creates() == 1


async def test_without_the_money_for_it_no_hold_begins(world: World) -> None:
    text = HELD.replace('"30m"', '"24h"').replace('"$9"', '"$1.5"')
    job = await fail(world, text)
    assert job.on_hold is None
    assert world.ours() == []
    assert "lease.held" not in await world.events()
    why = await world.jobs.why(world.job_id, limit=20)
    assert "not_held" in [note["topic"] for decision in why["decisions"] for note in decision["notes"]]


async def test_an_attempt_that_is_not_the_last_holds_nothing(world: World) -> None:
    world.agents.ends_well_from = 2
    world.agents.total_steps, world.agents.exit_code = 30, 1
    await world.tick()
    await world.submit(HELD.replace("max_attempts = 1", "max_attempts = 2"))
    await world.until_over(JobStatus.SUCCEEDED)
    assert "lease.held" not in await world.events()
