"""Arrays that follow others task by task, on a market, by the engine's own ticks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.mailbox.keys import orders_key, verified_outputs_key
from autopilot.mailbox.report_shapes import Manifest, Part
from tests.integration.engine.engine_world import World, a_world
from tests.integration.engine.interrupted_store import Killed, Moment
from tests.integration.engine.test_engine_after import find, leases_of, named, submit
from tests.integration.engine.test_engine_arrays import WIDE
from tests.integration.engine.test_engine_kills import Wrapper

FOLLOWS = 'after = [{ job = "first", on = "same task" }]'
ONCE = "[retry]\nmax_attempts = 1\n"


def an_array(name: str, *lines: str, count: int = 3, more: str = "", parallel: int = 3) -> str:
    return named(name, *lines) + more + f"[array]\ncount = {count}\nparallel = {parallel}\n"


async def tasks_of(world: World, array_id: str) -> dict[int | None, Job]:
    async with world.store.snapshot() as uow:
        return {task.task: task for task in await uow.jobs.list_tasks(array_id, limit=100)}


async def until_ended(world: World, job_id: str, status: JobStatus) -> Job:
    world.job_id = job_id
    job = await world.until(lambda job: job.status.is_final, f"{job_id} is {status}", 300)
    assert job.status is status, job.reason
    return job


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        made.agents.total_steps = 100
        made.limits = WIDE
        await made.restart()
        await made.tick()
        yield made


@pytest.mark.slow
async def test_each_task_begins_once_that_of_its_number_has_succeeded(world: World) -> None:
    within = '[deadline]\nwithin = "12h"\n'
    ids = await submit(world, an_array("first", parallel=1), an_array("then", FOLLOWS, more=within))
    array = await find(world, ids["then"])
    assert (array.waits_for_jobs, array.spec.deadline is not None) == (False, True), "the time for both counts from now"
    await world.tick(3)
    (note,) = (await world.jobs.show(ids["then"]))["job"]["waiting"]["notes"]
    assert (note["numbers"]["on"], note["numbers"]["name"], note["numbers"]["status"]) == (
        "same task", "first", "running",
    )  # fmt: skip
    seen = set()
    for _ in range(300):
        await world.tick()
        first, then = await tasks_of(world, ids["first"]), await tasks_of(world, ids["then"])
        assert all(first[number].status is JobStatus.SUCCEEDED for number in then)
        seen.add((len(first), len(then)))
        if (await find(world, ids["then"])).status.is_final:
            break
    assert await until_ended(world, ids["then"], JobStatus.SUCCEEDED)
    assert {(2, 1), (3, 2)} & seen, "it does not wait for the whole"
    assert (await find(world, ids["first"])).status is JobStatus.SUCCEEDED
    created = [row["label"] for row in world.sent("instance.created")]
    assert len(created) == len(set(created))


@pytest.mark.slow
async def test_what_follows_a_failure_never_begins_until_that_is_retried(world: World) -> None:
    ids = await submit(world, an_array("first", more=ONCE), an_array("then", FOLLOWS))
    await world.tick(2)
    world.agents.failures[(await tasks_of(world, ids["first"]))[1].id] = 1
    await until_ended(world, ids["first"], JobStatus.FAILED)
    ended = await until_ended(world, ids["then"], JobStatus.FAILED)
    assert ended.reason is Reason.DEPENDENCY_FAILED
    assert sorted(number or 0 for number in await tasks_of(world, ids["then"])) == [0, 2]
    await world.jobs.tasks.retry(f"{ids['first']}/1", failed=False)
    answer = await world.jobs.tasks.retry(ids["then"], failed=True)
    assert (answer["tasks"], answer["job"]["status"]) == ([], "running")
    await until_ended(world, ids["then"], JobStatus.SUCCEEDED)
    assert len(await tasks_of(world, ids["then"])) == 3


async def test_a_task_that_was_cancelled_and_could_not_have_begun_ends_no_other(world: World) -> None:
    world.agents.can_take_next = False
    ids = await submit(world, an_array("first", more=ONCE), an_array("then", FOLLOWS, parallel=1))
    await world.jobs.cancel(f"{ids['then']}/1")
    await world.tick(2)
    world.agents.failures[(await tasks_of(world, ids["first"]))[1].id] = 1
    await until_ended(world, ids["then"], JobStatus.FAILED)
    stood = {number: task.status for number, task in (await tasks_of(world, ids["then"])).items()}
    assert stood == {0: JobStatus.SUCCEEDED, 1: JobStatus.CANCELLED, 2: JobStatus.SUCCEEDED}


async def test_nothing_begins_after_an_array_that_was_cancelled(world: World) -> None:
    ids = await submit(world, an_array("first"), an_array("then", FOLLOWS))
    await world.jobs.cancel(ids["first"])
    ended = await until_ended(world, ids["then"], JobStatus.FAILED)
    assert (ended.reason, await tasks_of(world, ids["then"])) == (Reason.DEPENDENCY_FAILED, {})


async def test_each_task_takes_what_the_one_of_its_number_has_left(world: World) -> None:
    keeping = an_array("first", more='[outputs]\npaths = ["out"]\n')
    taking = an_array("then", FOLLOWS, more='[inputs]\ndata = "job:first/out/x"\n')
    ids = await submit(world, keeping, taking)
    await world.tick(2)
    for number, task in (await tasks_of(world, ids["first"])).items():
        if number != 2:
            manifest = Manifest(1, 1, (Part(f"a/out/1/part-{number}", 3, "0" * 64),))
            await world.blobs.put(verified_outputs_key(task.id), manifest.to_json())
    await until_ended(world, ids["first"], JobStatus.SUCCEEDED)
    first = await tasks_of(world, ids["first"])
    taken: dict[str, str] = {}
    for _ in range(300):
        await world.tick()
        for task in (await tasks_of(world, ids["then"])).values():
            for lease in task.leases:
                if (written := await world.blobs.get(orders_key(task.id, lease.id))) and task.main is not None:
                    (left,) = json.loads(written)["left"]
                    taken[task.spec.name] = left["job"]
        if (await find(world, ids["then"])).status.is_final:
            break
    assert taken == {"then/0": first[0].id, "then/1": first[1].id}
    then = await tasks_of(world, ids["then"])
    assert (then[2].status, then[2].reason) == (JobStatus.FAILED, Reason.DEPENDENCY_FAILED)
    assert await leases_of(world, then[2].id) == 0, "nothing is rented where nothing was left"
    assert all(len(lease.uses) <= 1 for task in then.values() for lease in task.leases)


async def test_a_task_cancelled_before_it_could_begin_is_not_retried(world: World) -> None:
    keeping = an_array("first", more='[outputs]\npaths = ["out"]\n')
    ids = await submit(world, keeping, an_array("then", FOLLOWS, more='[inputs]\ndata = "job:first/out"\n'))
    await world.tick()
    await world.jobs.cancel(f"{ids['then']}/1")
    with pytest.raises(UserError, match="then/1 was cancelled before the task that it follows had ended"):
        await world.jobs.tasks.retry(f"{ids['then']}/1", failed=False)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((an_array("first"), an_array("then", FOLLOWS, count=4)), "then has 4 tasks and first, which it follows"),
        ((named("first"), an_array("then", FOLLOWS)), '"same task" is for two arrays, and first is not an array'),
        ((an_array("first", FOLLOWS.replace("first", "then")), an_array("then", FOLLOWS)), "none could ever start"),
        (
            (an_array("first", more='[outputs]\npaths = ["out"]\n'),
             an_array("then", FOLLOWS, more='[inputs]\ndata = "job:first/other"\n')),
            "first has no output at 'other'",
        ),
    ],
)  # fmt: skip
async def test_arrays_that_cannot_follow_are_refused(world: World, texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError) as refused:
        await submit(world, *texts)
    assert message in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 13))
async def test_killed_at_any_commit_each_follows_once(tmp_path: Path, number: int, moment: Moment) -> None:
    wrapper = Wrapper()
    async with a_world(tmp_path, wrapper) as world:
        world.agents.total_steps = 20
        await world.tick()
        ids = await submit(world, an_array("first", count=2), an_array("then", FOLLOWS, count=2))
        assert wrapper.store is not None
        wrapper.store.kill_at, wrapper.store.moment = wrapper.store.transactions + number, moment
        kills = 0
        for _ in range(300):
            try:
                await world.tick()
            except Killed:
                kills += 1
                await world.restart()
            if (await find(world, ids["then"])).status.is_final:
                break
        assert kills == 1
        assert (await find(world, ids["then"])).status is JobStatus.SUCCEEDED
        for name in ids:
            async with world.store.snapshot() as uow:
                tasks = await uow.jobs.list_tasks(ids[name], limit=9)
                ended = [
                    [record.name for record in await uow.events.list_by_job(task.id)].count("run.exited")
                    for task in tasks
                ]
            assert ended == [1, 1]
