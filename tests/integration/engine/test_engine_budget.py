"""The budget is hard: work is saved, the machine is let go, and the job waits for a word from its owner."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.planning.prospects import Unlikely
from tests.integration.engine.engine_world import JOB, D, World

LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "3h"')


def with_budget(total: str, more: str = "") -> str:
    return LONG_JOB.replace('total = "$9"', f'total = "{total}"\n{more}')


async def until_parked(world: World) -> Job:
    """The job works until its budget of $0.50 is used up, about two hours; finer steps towards the end."""
    while (await world.job()).spent < D("0.28"):
        await world.tick(apart_s=300)
    return await world.until(lambda job: not job.status.wants_capacity, "the job is parked")


@pytest.mark.slow
async def test_a_budget_that_runs_out_saves_stops_and_parks(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(with_budget("$0.50"), accept_any=True)
    job = await until_parked(world)
    assert job.reason is Reason.BUDGET_EXHAUSTED
    (lease,) = await world.leases()
    agent = world.agents.of(lease.instance_id)
    assert agent.saved
    assert job.checkpoint is not None
    assert job.checkpoint.step == agent.step, "the last work was not saved"
    await world.until_settled()
    spent = sum((await world.spend()).values(), Decimal(0))
    assert D("0.20") < spent <= D("0.50")
    assert "run.stop_ordered" in await world.events()


@pytest.mark.slow
async def test_a_parked_job_resumes_from_its_checkpoint_when_prices_allow(world: World) -> None:
    """What was set aside to stop the dear machine starts a cheap one."""
    world.agents.total_steps = 10_800
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, machine.spec.on_demand * D("0.75"))
    await world.running(with_budget("$0.50"), accept_any=True)
    job = await until_parked(world)
    assert job.checkpoint is not None
    done = job.checkpoint.step
    await world.tick(12)
    assert world.creates() == 1, "a parked job rents nothing"
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, D("0.005"))
    world.clock.advance(60)
    world.agents.total_steps = done + 60
    await world.jobs.resume("train")
    again = await world.until_running()
    await world.tick()
    assert world.agents.of(again.instance_id).step >= done
    await world.until_over()
    assert sum((await world.spend()).values(), Decimal(0)) <= D("0.50")


@pytest.mark.slow
async def test_a_parked_job_says_what_is_held_back_for_what_and_which_budget_would_do(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(with_budget("$0.50"), accept_any=True)
    await until_parked(world)
    async with world.store.snapshot() as uow:
        (parked,) = [event for event in await uow.events.list_after() if event.name == "job.parked"]
    fields: dict[str, Any] = dict(parked.fields)
    held = {key: amount for key, amount in fields.items() if key.startswith("held_for_")}
    assert held.keys() == {"held_for_safe_stop", "held_for_disk", "held_for_traffic"}
    assert fields["budget"] == fields["spent"] + sum(held.values()) + fields["left"] == D("0.50")
    assert fields["left"] <= 0
    assert fields["enough_budget"] > D("0.50")
    assert fields["enough_budget"] == round(fields["enough_budget"], 2)
    decisions = (await world.jobs.why("train", limit=5))["decisions"]
    notes = {note["topic"]: note["numbers"] for note in decisions[0]["notes"]}
    told = {key: D(amount) for key, amount in (notes["budget"] | notes["held_back"]).items()}
    assert told == {key: fields[key] for key in fields if key not in ("reason", "from")}


@pytest.mark.slow
async def test_a_small_job_on_a_cheap_machine_spends_most_of_its_budget(world: World) -> None:
    """What is held back is in proportion to the job: a quarter of a dollar did not get beyond 4.4 cents."""
    world.agents.total_steps = 100_000
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, D("0.05"))
    text = JOB.replace('total = "$9"', 'total = "$0.25"').replace('[work]\nestimate = "10m"\n', "")
    await world.running(text, accept_any=True)
    while (job := await world.job()).status.wants_capacity:
        await world.tick(apart_s=120 if job.spent < D("0.12") else 30)
    assert job.reason is Reason.BUDGET_EXHAUSTED
    await world.until_settled()
    assert D("0.15") < sum((await world.spend()).values(), D(0)) <= D("0.25")


@pytest.mark.slow
async def test_a_resume_without_money_parks_again_and_rents_nothing(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(with_budget("$0.50"), accept_any=True)
    await until_parked(world)
    for machine in world.market.machines.values():
        world.market.set_floor(machine.spec.machine_id, machine.spec.on_demand * D("0.95"))
    world.clock.advance(60)
    await world.jobs.resume("train")
    await world.until(lambda job: job.status is JobStatus.PARKED, "the job is parked again", most=40)
    assert world.creates() == 1
    await world.until_settled()


@pytest.mark.slow
async def test_on_exhausted_cancel_ends_the_job(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(with_budget("$0.50", 'on_exhausted = "cancel"'), accept_any=True)
    job = await until_parked(world)
    assert (job.status, job.reason) == (JobStatus.CANCELLING, Reason.BUDGET_EXHAUSTED)
    job = await world.until_over(JobStatus.CANCELLED)
    assert job.reason is Reason.BUDGET_EXHAUSTED


@pytest.mark.slow
async def test_a_parked_job_can_be_cancelled(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(with_budget("$0.50"), accept_any=True)
    await until_parked(world)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)
    assert sum((await world.spend()).values(), Decimal(0)) <= D("0.50")


@pytest.mark.slow
async def test_an_agent_that_never_saves_does_not_outlive_the_budget(world: World) -> None:
    world.agents.total_steps = 10_800
    lease = await world.running(with_budget("$0.50"), accept_any=True)
    await world.until_checkpoint()
    world.agents.deaf.add(lease.id)
    await until_parked(world)
    await world.until_settled()
    assert sum((await world.spend()).values(), Decimal(0)) <= D("0.50")


@pytest.mark.slow
async def test_a_machine_that_was_told_to_save_and_stop_gets_no_new_permit(world: World) -> None:
    """If the daemon dies before it has saved, it stops itself soon."""
    world.agents.total_steps = 10_800
    lease = await world.running(with_budget("$0.50"), accept_any=True)
    await world.until_checkpoint()
    while (await world.job()).spent < D("0.22"):
        await world.tick(apart_s=300)
    for _ in range(900):
        await world.tick(apart_s=20)
        if (await world.lease(lease.id)).orders.stop_ordered_at is not None:
            break
    world.agents.deaf.add(lease.id)
    renewed_at = []
    while (told := await world.lease(lease.id)).is_wanted:
        renewed_at.append(told.permit.renewed_at)
        await world.tick(apart_s=20)
    assert len(renewed_at) > 5
    assert len(set(renewed_at)) == 1, "with the order itself, and never again"


async def test_what_is_not_posted_yet_counts_against_the_account(world: World) -> None:
    lease = await world.running(LONG_JOB)
    world.clock.advance(20)
    async with world.store.transaction() as uow:
        event_logs = [EventLog(job) for job in await uow.jobs.list_open()]
        exposure = await world.engine._accrue(uow, event_logs, (), D(0), world.clock.now())
        posted = await uow.ledger.sum_totals(world.clock.now().date())
    more = exposure.spent_day - posted.day
    assert more == exposure.spent_month - posted.month
    assert D(0) < more < lease.burn_upper, "less than a cent is not posted, and counts"


async def test_a_budget_that_will_not_do_is_refused_with_one_that_will(world: World) -> None:
    await world.tick()
    with pytest.raises(Unlikely, match=r"\$0\.50 is not enough in any simulated market") as refused:
        await world.submit(with_budget("$0.50"))
    enough = re.search(r"more budget: (\$[0-9.]+) is enough", str(refused.value))
    assert enough is not None
    await world.submit(with_budget(enough[1]))
