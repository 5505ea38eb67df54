"""A job that is stopped by its owner, and one that gets other terms while it runs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.planning.plan import OverBudget
from autopilot.planning.prospects import Unlikely
from tests.integration.engine.engine_world import JOB, D, World

LONG_JOB = JOB.replace('estimate = "10m"', 'estimate = "3h"')


async def test_stop_saves_gives_the_machine_back_and_resume_goes_on(world: World) -> None:
    world.agents.total_steps = 3600
    await world.running()
    await world.tick(8)
    world.clock.advance(20)
    assert (await world.jobs.stop("train"))["status"] == "stopping"
    job = await world.until(lambda job: job.status is JobStatus.PARKED, "the job is parked", most=40)
    assert job.reason is Reason.USER_STOPPED
    (lease,) = await world.leases()
    agent = world.agents.of(lease.instance_id)
    assert agent.saved
    assert job.checkpoint is not None
    assert job.checkpoint.step == agent.step, "the last work was not saved"
    await world.tick(40)
    assert world.creates() == 1, "it stays parked on any day"
    world.agents.total_steps = job.checkpoint.step + 60
    await world.jobs.resume("train")
    again = await world.until_running()
    assert world.agents.of(again.instance_id).step >= job.checkpoint.step
    await world.until_over()


async def test_a_job_that_waits_for_a_machine_is_parked_at_once(world: World) -> None:
    await world.submit(LONG_JOB)
    await world.jobs.stop("train")
    await world.tick()
    assert (await world.job()).status is JobStatus.PARKED
    assert world.creates() == 0
    with pytest.raises(UserError, match="parked already"):
        await world.jobs.stop("train")


async def test_a_stopping_job_can_be_cancelled_and_its_end_counts(world: World) -> None:
    world.agents.total_steps = 3600
    lease = await world.running()
    await world.jobs.stop("train")
    world.agents.deaf.add(lease.id)
    await world.tick(2)
    await world.jobs.cancel("train")
    await world.until_over(JobStatus.CANCELLED)


async def test_a_higher_budget_is_taken_at_once_and_written_down(world: World) -> None:
    await world.running(LONG_JOB)
    answer = await world.jobs.change("train", {"budget": "$12"})
    assert answer["plan"] is None, "more money is not asked about"
    assert (await world.jobs.change("train", {"max_price": "0.9"}))["plan"] is not None
    job = await world.job()
    assert (job.spec.budget, job.spec.max_bid) == (D(12), D("0.9"))
    shown = await world.jobs.show("train")
    changes = [event["fields"] for event in shown["events"] if event["name"] == "job.changed"]
    assert changes == [{"key": "budget", "from": "9", "to": "12"}, {"key": "max_bid", "from": None, "to": "0.9"}]


async def test_a_budget_that_is_spent_already_is_refused_and_nothing_changes(world: World) -> None:
    world.agents.total_steps = 10_800
    await world.running(LONG_JOB)
    while (await world.job()).spent < D("0.10"):
        await world.tick(apart_s=300)
    with pytest.raises(OverBudget, match="is used up"):
        await world.jobs.change("train", {"budget": "0.05"})
    with pytest.raises((OverBudget, Unlikely)):
        await world.jobs.change("train", {"budget": "0.16"})
    assert (await world.job()).spec.budget == D(9)
    answer = await world.jobs.change("train", {"budget": "4"})
    assert answer["plan"]["refusal"] is None
    assert Decimal(answer["job"]["budget"]) == 4


async def test_a_deadline_that_cannot_be_met_is_refused(world: World) -> None:
    await world.running(LONG_JOB)
    with pytest.raises(Unlikely):
        await world.jobs.change("train", {"deadline": "20m"})
    await world.jobs.change("train", {"deadline": "12h"})
    with pytest.raises(Unlikely):
        await world.jobs.change("train", {"deadline": "1h"})
    await world.jobs.change("train", {"deadline": "+6h"})
    assert "job.changed" in await world.events()


@pytest.mark.slow
async def test_a_lowered_budget_holds(world: World) -> None:
    """Parked within the new budget, not the old one."""
    world.agents.total_steps = 10_800
    await world.running(LONG_JOB)
    await world.tick(2)
    await world.jobs.change("train", {"budget": "0.45"}, least_probability=0)
    job = await world.until(lambda job: not job.status.wants_capacity, "parked", most=225, apart_s=60)
    assert job.reason is Reason.BUDGET_EXHAUSTED
    await world.until_settled()
    assert sum((await world.spend()).values(), D(0)) <= D("0.45")


async def until_parked(world: World) -> None:
    """By its own budget; its machine is gone and billed."""
    for _ in range(120):
        await world.tick(apart_s=90)
        if (await world.job()).status is JobStatus.PARKED:
            break
    assert (await world.job()).reason is Reason.BUDGET_EXHAUSTED, await world.story()
    await world.until_settled()


async def parked(world: World, budget: str) -> None:
    world.agents.total_steps = 10_800
    await world.running(LONG_JOB)
    await world.jobs.change("train", {"budget": budget}, least_probability=0)
    await until_parked(world)


@pytest.mark.slow
async def test_a_raised_budget_lets_a_parked_job_go_on_by_itself_and_each_raise_once(world: World) -> None:
    await parked(world, "0.45")
    await world.tick(4, apart_s=600)
    assert (await world.job()).status is JobStatus.PARKED, "its reserve is free, and no limit was raised"
    await world.jobs.change("train", {"budget": "0.46"})
    await world.tick(4)
    assert (await world.job()).status is JobStatus.PARKED, "a cent pays for no start"
    await world.jobs.change("train", {"budget": "0.80"})
    await world.tick()
    assert (await world.job()).status.wants_capacity
    await world.until_running()
    shown = await world.jobs.show("train")
    went_on = [event["fields"] for event in shown["events"] if event["fields"].get("reason") == "room_again"]
    assert [(fields["from"], fields["parked_for"]) for fields in went_on] == [("parked", "budget_exhausted")]
    await until_parked(world)
    await world.tick(4, apart_s=600)
    assert (await world.job()).status is JobStatus.PARKED, "the raise has been used"
    assert sum((await world.spend()).values(), D(0)) <= D("0.80")


@pytest.mark.slow
async def test_a_raise_counts_for_the_next_daemon_too(world: World) -> None:
    """It is read from the job's events: the daemon that was told of it need not be the one that acts on it."""
    await parked(world, "0.45")
    await world.restart()
    await world.tick()
    assert (await world.job()).status is JobStatus.PARKED
    await world.jobs.change("train", {"budget": "none"})
    await world.restart()
    await world.until_running()
