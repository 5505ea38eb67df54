"""The allowance of a token is as hard as a budget: over all of its jobs, in its period, and after the token's end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pytest

from autopilot.api.submissions import Sent
from autopilot.domain.delegation import Settled
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.ledger import EntryType
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Scope, Token
from autopilot.engine.accrue import entry
from tests.integration.engine.engine_world import JOB, D, World

LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "3h"')
SECOND = LONG_JOB.replace('name = "train"', 'name = "second"')


async def a_token(world: World, allowance: str | None, *, is_monthly: bool = False) -> Token:
    token = Token(7, "ci", "a" * 64, Scope.SUBMIT, False, (), world.clock.now(), None)
    token = replace(token, allowance=None if allowance is None else D(allowance), is_monthly=is_monthly)
    await keep(world, token)
    return token


async def keep(world: World, token: Token) -> None:
    async with world.store.transaction() as uow:
        await uow.tokens.save(token)


async def submit(world: World, token: Token, text: str = LONG_JOB) -> str:
    body = await world.jobs.submissions.submit(
        [Sent(text, "job.toml")],
        itemgetter(0),
        dry_run=False,
        least_probability=0.0,
        owner=token.owner,
        token=token,
        again=True,
    )
    world.job_id = body["job"]["id"]
    return str(body["job"]["id"])


async def find(world: World, job_id: str) -> Job:
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(job_id)
    assert job is not None
    return job


async def until_parked(world: World, job_id: str, until_spent: str = "0.28") -> Job:
    """Steps are finer towards the end, where work is saved."""
    for _ in range(400):
        job = await find(world, job_id)
        if not job.status.wants_capacity:
            return job
        await world.tick(apart_s=300 if job.spent < D(until_spent) and job.leases else 15)
    raise AssertionError(f"not parked: {job.status}, {job.spent}, {await world.story()}")


async def billed(world: World) -> Decimal:
    """By the market's own books."""
    await world.until_settled()
    return sum((await world.spend()).values(), D(0))


@pytest.mark.slow
async def test_an_allowance_that_runs_out_saves_stops_and_parks(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    job_id = await submit(world, await a_token(world, "0.50"))
    lease = await world.until_running()
    job = await until_parked(world, job_id)
    assert (job.status, job.reason) == (JobStatus.PARKED, Reason.OVER_ALLOWANCE)
    agent = world.agents.of(lease.instance_id)
    assert (agent.saved, job.checkpoint is not None and job.checkpoint.step == agent.step) == (True, True)
    assert D("0.20") < await billed(world) <= D("0.50")
    await world.jobs.resume(job_id) if (await find(world, job_id)).status is JobStatus.PARKED else None
    await world.tick(40)
    assert await billed(world) <= D("0.50")


async def spend_together(world: World, *job_ids: str) -> Decimal:
    """Until one of them is parked and none has a machine; dollars that they have spent, never more than $0.80."""
    for _ in range(600):
        jobs = [await find(world, job_id) for job_id in job_ids]
        spent = sum((job.spent for job in jobs), D(0))
        assert spent <= D("0.80")
        if not any(job.leases for job in jobs) and any(job.status is JobStatus.PARKED for job in jobs):
            break
        await world.tick(apart_s=120 if spent < D("0.35") else 15)
    assert {job.reason for job in jobs if job.status is JobStatus.PARKED} == {Reason.OVER_ALLOWANCE}
    assert all(job.spent < D("0.80") for job in jobs)
    return spent


@pytest.mark.slow
async def test_all_jobs_of_a_token_share_it_and_others_do_not(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    token = await a_token(world, "0.80")
    await world.submit(LONG_JOB.replace('name = "train"', 'name = "users"'), accept_any=True)
    users = world.job_id
    first, second = await submit(world, token), await submit(world, token, SECOND)
    spent = await spend_together(world, first, second)
    assert (await find(world, users)).status is JobStatus.RUNNING
    assert spent > D("0.40")


@pytest.mark.slow
async def test_the_jobs_of_what_a_token_made_share_its_allowance(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    maker = await a_token(world, "0.80")
    made = Token(8, "made", "b" * 64, Scope.SUBMIT, False, (), world.clock.now(), None, allowance=D(5))
    made = replace(made, made_by=maker.owner)
    last = replace(made, number=9, name="last", sha256="c" * 64, allowance=None, made_by=made.owner)
    await keep(world, made)
    await keep(world, last)
    first, second = await submit(world, maker), await submit(world, last, SECOND)
    await spend_together(world, first, second)
    assert D("0.40") < await billed(world) <= D("0.80")


async def test_what_a_job_that_is_over_has_cost_counts(world: World) -> None:
    await world.tick()
    token = await a_token(world, "0.80")
    over = await submit(world, token, JOB)
    await world.until_over()
    spent = (await find(world, over)).spent
    await keep(world, replace(token, allowance=spent + D("0.000000001")))
    creates = world.creates()
    job_id = await submit(world, token)
    await world.tick(4)
    job = await find(world, job_id)
    assert (job.status, world.creates()) == (JobStatus.PENDING, creates)
    vetoes = (await world.jobs.why(job_id, limit=1))["job"]["waiting"]["vetoes"]
    assert {veto["numbers"]["because"] for veto in vetoes} == {"over_allowance"}


@pytest.mark.slow
@pytest.mark.parametrize("is_monthly", [True, False])
async def test_an_allowance_by_the_month_renews_and_one_for_life_does_not(world: World, is_monthly: bool) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    job_id = await submit(world, await a_token(world, "0.50", is_monthly=is_monthly))
    await until_parked(world, job_id)
    assert (await spent_in_next_month(world, job_id) > D("0.50")) is is_monthly


@pytest.mark.slow
async def test_the_allowance_of_a_token_that_has_ended_renews_no_more(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    token = await a_token(world, "0.50", is_monthly=True)
    job_id = await submit(world, token)
    await world.until_running()
    await keep(world, replace(token, expires_at=world.clock.now()))
    await world.tick(4)
    assert (await find(world, job_id)).status is JobStatus.RUNNING, "a job that runs goes on within what is left"
    job = await until_parked(world, job_id)
    assert job.reason is Reason.OVER_ALLOWANCE
    assert await spent_in_next_month(world, job_id) <= D("0.50")


async def test_nothing_begins_under_a_token_whose_maker_has_ended(world: World) -> None:
    await world.tick()
    maker = replace(await a_token(world, None), revoked_at=world.clock.now())
    made = Token(8, "made", "b" * 64, Scope.SUBMIT, False, (), world.clock.now(), None, made_by=maker.owner)
    await keep(world, maker)
    await keep(world, made)
    job = await until_parked(world, await submit(world, made))
    assert (job.status, job.reason, world.creates()) == (JobStatus.PARKED, Reason.OVER_ALLOWANCE, 0)


@pytest.mark.parametrize("how", ["expires_at", "revoked_at"])
async def test_nothing_begins_under_a_token_that_has_ended(world: World, how: str) -> None:
    await world.tick()
    token = await a_token(world, None)
    ended: Any = {how: world.clock.now()}
    await keep(world, replace(token, **ended))
    job_id = await submit(world, token)
    job = await until_parked(world, job_id)
    assert (job.status, job.reason, world.creates()) == (JobStatus.PARKED, Reason.OVER_ALLOWANCE, 0)


async def test_a_job_of_a_token_that_the_ledger_does_not_have_rents_nothing(world: World) -> None:
    await world.tick()
    token = Token(9, "lost", "b" * 64, Scope.SUBMIT, False, (), world.clock.now(), None)
    job = await until_parked(world, await submit(world, token))
    assert (job.reason, world.creates()) == (Reason.OVER_ALLOWANCE, 0)


async def test_a_late_bill_counts_and_may_make_it_negative(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    job_id = await submit(world, await a_token(world, "5"))
    lease = await world.until_running()
    now = world.clock.now()
    late = entry(EntryType.ADJUST, lease, CostKind.COMPUTE, now.date(), D("5.25"), now, mark="late")
    async with world.store.transaction() as uow:
        await uow.ledger.post([late])
    job = await until_parked(world, job_id)
    assert job.reason is Reason.OVER_ALLOWANCE
    async with world.store.snapshot() as uow:
        (parked,) = [event for event in await uow.events.list_by_job(job_id) if event.name == "job.parked"]
    assert D(str(dict(parked.fields)["allowance_left"])) < 0


async def spent_in_next_month(world: World, job_id: str) -> Decimal:
    """By the job from its beginning to some hours after the month's end."""
    await world.until_settled()
    now = world.clock.now()
    first = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=now.tzinfo)
    world.clock.advance((first + timedelta(minutes=1) - now).total_seconds())
    for _ in range(60):
        await world.tick(apart_s=300)
    return (await find(world, job_id)).spent


@pytest.mark.slow
async def test_a_user_whom_the_settings_limit_has_an_allowance_too(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    user = Token(-4711, "alice", "", Scope.SUBMIT, False, (), world.clock.now(), None, None, D("0.50"))
    world.engine.config = replace(world.engine.config, settled=Settled((user,)))
    job_id = await submit(world, user)
    await world.until_running()
    job = await until_parked(world, job_id)
    assert (job.owner, job.status, job.reason) == (4711, JobStatus.PARKED, Reason.OVER_ALLOWANCE)
    assert D("0.20") < await billed(world) <= D("0.50")
