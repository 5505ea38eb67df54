"""Arrays on a market, by the engine's own ticks: tasks begin when there is a place for them; how the whole ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from autopilot.answers.models.jobs import ListQuery
from autopilot.api.submissions import Sent
from autopilot.books.budget import budget as read_budget
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.outstanding import read_moment
from tests.integration.engine.engine_world import JOB, LIMITS, World, a_world
from tests.integration.engine.interrupted_store import Killed, Moment
from tests.integration.engine.test_engine_kills import Wrapper

D = Decimal
WIDE = replace(LIMITS, launches_per_hour=1000)
"""Tasks that begin together rent a machine each."""


def an_array(*lines: str, total: str = "$9", more: str = "") -> str:
    return JOB.replace('total = "$9"', f'total = "{total}"') + more + "\n".join(("[array]", *lines, ""))


async def submit(world: World, toml: str, *, table: str | None = None, **more: Any) -> Any:
    asked = {"dry_run": False, "owner": 1000} | more
    made: Any = await world.jobs.submissions.submit([Sent(toml, "a.toml", table=table)], itemgetter(0), **asked)
    world.job_id = made["job"] and made["job"]["id"]
    return made


async def tasks_of(world: World) -> tuple[Job, ...]:
    async with world.store.snapshot() as uow:
        return await uow.jobs.list_tasks(world.job_id, limit=10_000)


async def read_statuses(world: World) -> dict[int | None, JobStatus]:
    return {task.task: task.status for task in await tasks_of(world)}


async def runs_of(world: World) -> list[int]:
    """How often the command of each task has ended."""
    async with world.store.snapshot() as uow:
        events = [await uow.events.list_by_job(task.id) for task in await tasks_of(world)]
    return [sum(record.name == "run.exited" for record in of_task) for of_task in events]


async def until_ended(world: World, status: JobStatus, most: int = 300) -> Job:
    job = await world.until(lambda job: job.status.is_final, f"the array is {status}", most)
    assert job.status is status, (job.reason, await read_statuses(world))
    return job


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        made.agents.total_steps = 20
        made.limits = WIDE
        await made.restart()
        await made.tick()
        yield made


async def test_each_task_runs_once_with_its_own_values_and_no_more_at_once_than_allowed(world: World) -> None:
    made = await submit(world, an_array("matrix = { LR = [0.1, 0.01], SEED = [1, 2] }", "parallel = 2"))
    told = made["job"]["tasks"]
    assert {key: told[key] for key in ("count", "needed", "parallel", "unbegun")} == {
        "count": 4, "needed": 4, "parallel": 2, "unbegun": 4,
    }  # fmt: skip
    assert made["plan"]["array"]["width"] == 2
    assert await tasks_of(world) == (), "nothing is written of a task before it has a place"
    most = 0
    for _ in range(300):
        await world.tick()
        most = max(most, sum(not status.is_final for status in (await read_statuses(world)).values()))
        if (await world.job()).status.is_final:
            break
    job, tasks = await world.job(), await tasks_of(world)
    assert (job.status, job.reason, most) == (JobStatus.SUCCEEDED, Reason.COMPLETED, 2)
    assert await read_statuses(world) == dict.fromkeys(range(4), "succeeded")
    assert await runs_of(world) == [1, 1, 1, 1]
    variables = [dict(task.spec.env) for task in tasks]
    assert [(each["LR"], each["SEED"]) for each in variables] == [
        ("0.1", "1"), ("0.1", "2"), ("0.01", "1"), ("0.01", "2"),
    ]  # fmt: skip
    assert [(each["AUTOPILOT_TASK"], each["AUTOPILOT_TASKS"]) for each in variables] == [
        (str(n), "4") for n in range(4)
    ]
    await world.until_settled()
    shown = await world.jobs.show(world.job_id)
    async with world.store.snapshot() as uow:
        of_tasks = [await uow.jobs.find(task.id) for task in tasks]
    assert D(shown["job"]["posted"]) == sum((task.spent for task in of_tasks if task is not None), ZERO) > 0
    assert D(shown["spend"]["posted"]) == D(shown["job"]["posted"])
    assert D(shown["spend"]["on_demand_equivalent"]) > 0, "of the tasks' machines"


async def test_rows_of_a_table_are_tasks_and_what_fails_ends_nothing_else(world: World) -> None:
    world.agents.total_steps = 100  # what fails sooner may be its machine's fault
    table = 'LR,NOTE\r\n0.1,"a, ""b"" $HOME"\r\n0.2,\r\n0.3,ü\r\n'
    toml = an_array('from = "p.csv"', "succeed_at = 0.6", more="[retry]\nmax_attempts = 1\n")
    with pytest.raises(UserError, match=r"the table p\.csv was not sent"):
        await submit(world, toml)
    await submit(world, toml, table=table)
    await world.tick(2)
    tasks = await tasks_of(world)
    assert [dict(task.spec.env)["NOTE"] for task in tasks] == ['a, "b" $HOME', "", "ü"]
    world.agents.failures[tasks[1].id] = 1
    job = await until_ended(world, JobStatus.SUCCEEDED)
    assert await read_statuses(world) == {0: "succeeded", 1: "failed", 2: "succeeded"}
    assert job.reason is Reason.COMPLETED, "two of three suffice for 0.6"


async def test_an_array_that_cannot_go_on_stops_no_other(world: World) -> None:
    await submit(world, an_array('from = "p.csv"'), table="LR\n0.1\n0.2\n")
    async with world.store.transaction() as uow:
        await uow.jobs.save(replace(await world.job(), id="without-its-table"))
    await until_ended(world, JobStatus.SUCCEEDED)
    async with world.store.snapshot() as uow:
        broken = await uow.jobs.find("without-its-table")
        assert broken is not None
        assert broken.status is JobStatus.PENDING
        assert await uow.jobs.list_tasks(broken.id, limit=9) == ()


@pytest.mark.slow
async def test_too_many_failures_end_it_and_retry_restarts_them(world: World) -> None:
    world.agents.exit_code, world.agents.total_steps = 1, 100
    await submit(world, an_array("count = 6", "parallel = 2", "max_failures = 2", more="[retry]\nmax_attempts = 1\n"))
    job = await until_ended(world, JobStatus.FAILED)
    assert job.reason is Reason.TOO_MANY_FAILURES
    counted = Counter((await read_statuses(world)).values())
    assert counted[JobStatus.FAILED] >= 2
    assert len(await tasks_of(world)) < 6, "nothing new began"
    world.agents.exit_code = 0
    answer = await world.jobs.tasks.retry(world.job_id, failed=True)
    assert answer["tasks"] == [n for n, status in sorted((await read_statuses(world)).items()) if status == "parked"]
    await until_ended(world, JobStatus.SUCCEEDED)
    assert set((await read_statuses(world)).values()) == {JobStatus.SUCCEEDED}
    assert len(await tasks_of(world)) == 6
    with pytest.raises(UserError, match="already has all required successes"):
        await world.jobs.tasks.retry(world.job_id, failed=True)


@pytest.mark.slow
async def test_one_budget_over_all_tasks_parks_them_and_more_lets_them_go_on(world: World) -> None:
    """The rest covers each task alone; together they may not exceed it, even if they act at the same moment."""
    world.agents.total_steps = 10_000  # none ends by itself
    await submit(world, an_array("count = 6", "parallel = 6", total="$0.60"), least_probability=0)
    for _ in range(400):
        await world.tick()
        job = await world.job()
        if job.status is JobStatus.PARKED:
            break
    assert (job.status, job.reason) == (JobStatus.PARKED, Reason.BUDGET_EXHAUSTED), await read_statuses(world)
    begun = await read_statuses(world)
    assert begun
    assert set(begun.values()) == {JobStatus.PARKED}
    await world.until_settled()
    async with world.store.snapshot() as uow:
        sums = (await uow.ledger.sum_arrays([world.job_id]))[world.job_id]
    assert ZERO < sums.posted <= D("0.60"), "bills that came late are in it"
    world.agents.total_steps = 20
    await world.jobs.change(world.job_id, {"budget": "9"})
    await until_ended(world, JobStatus.SUCCEEDED)


@pytest.mark.slow
async def test_tasks_are_listed_stopped_and_cancelled_by_their_numbers(world: World) -> None:
    world.agents.total_steps = 10_000
    await submit(world, an_array("count = 20", "parallel = 3"))
    await world.tick(4)
    assert list(await read_statuses(world)) == [0, 1, 2]
    with pytest.raises(UserError, match="task 17 of train has not started"):
        await world.jobs.show("train/17")
    with pytest.raises(UserError, match="has no task '20'"):
        await world.jobs.show("train/20")
    with pytest.raises(UserError, match="is an array: its tasks have output"):
        await world.jobs.logs.read("train", after="", tail=False)
    assert (await world.jobs.show("train/1"))["job"]["name"] == "train/1"
    listed = (await world.jobs.overview(ListQuery()))["jobs"]
    assert [(job["name"], job["tasks"]["unbegun"]) for job in listed] == [("train", 17)]
    assert len((await world.jobs.overview(ListQuery(tasks=True)))["jobs"]) == 4
    async with world.store.snapshot() as uow:
        moment = await read_moment(uow, world.clock.now(), Params())
        (row,) = (await read_budget(uow, moment, LIMITS, {})).jobs
    rates = [task.main.burn_upper for task in await tasks_of(world) if task.main is not None]
    assert ZERO < row.burn <= sum(rates, ZERO)
    assert row.held_for["safe_stop"]
    page = await world.jobs.overview(ListQuery(array="train", limit=2))
    assert ([job["task"] for job in page["jobs"]], page["next"]) == ([0, 1], "1")
    page = await world.jobs.overview(ListQuery(array="train", after="1"))
    assert ([job["task"] for job in page["jobs"]], page["next"]) == ([2], None)
    await world.jobs.cancel("train/2-18")
    await world.tick(10)
    assert (await read_statuses(world))[2] is JobStatus.CANCELLED
    assert not (await read_statuses(world))[19].is_final, "the place goes to the next"
    assert sum(status is JobStatus.CANCELLED for status in (await read_statuses(world)).values()) == 17
    with pytest.raises(UserError, match="change its array"):
        await world.jobs.change("train/1", {"budget": "5"})
    changed = await world.jobs.change("train", {"parallel": "1", "max_price": "0.5"})
    assert changed["job"]["tasks"]["parallel"] == 1
    assert {task.spec.max_bid for task in await tasks_of(world) if not task.status.is_final} == {D("0.5")}
    await world.jobs.stop("train")
    await world.until(lambda job: job.status is JobStatus.PARKED, "it is parked")
    assert Counter((await read_statuses(world)).values()) == {JobStatus.CANCELLED: 17, JobStatus.PARKED: 3}
    await world.jobs.resume("train")
    await world.tick(3)
    assert JobStatus.PARKED not in (await read_statuses(world)).values()
    await world.jobs.cancel("train")
    await until_ended(world, JobStatus.CANCELLED)
    assert set((await read_statuses(world)).values()) == {JobStatus.CANCELLED}
    why = await world.jobs.why("train", limit=50)
    assert {note["topic"] for decision in why["decisions"] for note in decision["notes"]} == {"width"}


@pytest.mark.slow
async def test_a_task_that_waits_for_money_keeps_its_place(world: World) -> None:
    """Another one in its place would run beside it once there is money again, on more machines than are allowed."""
    world.agents.total_steps = 2_000
    world.limits = replace(WIDE, day=D("0.30"))
    await world.restart()
    await submit(world, an_array("count = 9", "parallel = 2"))
    while {task.reason for task in await tasks_of(world)} != {Reason.OVER_DAY_LIMIT}:
        await world.tick()
    await world.tick(20)
    assert len(await tasks_of(world)) == 2
    world.limits = WIDE
    await world.restart()
    at_work = []
    for _ in range(20):
        await world.tick(apart_s=600)
        at_work.append(sum(status.wants_capacity for status in (await read_statuses(world)).values()))
    assert max(at_work) == 2, "they go on"


async def test_an_array_that_is_resumed_runs_no_more_at_once_than_it_may(world: World) -> None:
    """Its parked tasks take their places again in the tick in which it goes on."""
    world.agents.total_steps = 2_000
    await submit(world, an_array("count = 9", "parallel = 2"))
    await world.tick(3)
    await world.jobs.stop("train")
    await world.until(lambda job: job.status is JobStatus.PARKED, "it is parked")
    await world.jobs.resume("train")
    await world.tick(3)
    assert [status.wants_capacity for status in (await read_statuses(world)).values()] == [True, True]


async def test_after_an_array_waits_for_the_end_of_all(world: World) -> None:
    asked: Any = {"dry_run": False, "owner": 1000}
    then = JOB.replace('name = "train"', 'name = "then"\nafter = ["train"]', 1)
    sent = [Sent(an_array("count = 3", "parallel = 2"), "a.toml"), Sent(then, "b.toml")]
    told = await world.jobs.submissions.submit(sent, lambda each: {"all": each}, **asked)
    first, second = told["all"]
    world.job_id = first["job"]["id"]
    while not (await world.job()).status.is_final:
        async with world.store.snapshot() as uow:
            other = await uow.jobs.find(second["job"]["id"])
        assert other is not None
        assert other.waits_for_jobs
        await world.tick()
    await world.tick(2)
    async with world.store.snapshot() as uow:
        other = await uow.jobs.find(second["job"]["id"])
    assert other is not None
    assert other.launches == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 9))
async def test_killed_at_any_commit_each_task_runs_once(tmp_path: Path, number: int, moment: Moment) -> None:
    wrapper = Wrapper()
    async with a_world(tmp_path, wrapper) as world:
        world.agents.total_steps = 20
        await world.tick()
        await submit(world, an_array("count = 3", "parallel = 2"))
        assert wrapper.store is not None
        wrapper.store.kill_at, wrapper.store.moment = wrapper.store.transactions + number, moment
        kills = 0
        for _ in range(200):
            try:
                await world.tick()
            except Killed:
                kills += 1
                await world.restart()
            if (await world.job()).status.is_final:
                break
        assert kills == 1
        assert await read_statuses(world) == dict.fromkeys(range(3), JobStatus.SUCCEEDED)
        assert await runs_of(world) == [1, 1, 1]
        created = [row["label"] for row in world.sent("instance.created")]
        assert len(created) == len(set(created)) == 2, "the third task runs where one of the first has ended"
