"""Jobs that wait for others: on a market, by the engine's own ticks, killed at each commit of a hand-over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from autopilot.api.submissions import Sent
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.mailbox.keys import orders_key, verified_outputs_key
from autopilot.mailbox.report_shapes import Manifest, Part
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.interrupted_store import InterruptedStore, Killed, Moment
from tests.integration.engine.test_engine_kills import Wrapper


def named(name: str, *lines: str) -> str:
    return "\n".join((*lines, JOB.replace('name = "train"', f'name = "{name}"', 1)))


FIRST = named("first")
THEN = named("then", 'after = ["first"]')
LAST = named("last", 'after = ["then"]')
ARRAY = "[array]\ncount = 2\n"
CLEAN = named("clean", 'after = [{ job = "first", on = "fail" }]')


def keeping(*paths: str) -> str:
    return FIRST + f"[outputs]\npaths = {list(paths)}\n"


def taking(left_at: str) -> str:
    return named("taker") + f'[inputs]\ndata = "job:first/{left_at}"\n'


async def submit(world: World, *texts: str, **more: Any) -> dict[str, str]:
    """Ids by name."""
    sent = [Sent(text, f"{number}.toml") for number, text in enumerate(texts)]
    asked: dict[str, Any] = {"dry_run": False, "owner": 1000} | more
    told = await world.jobs.submissions.submit(sent, lambda each: {"all": each}, **asked)
    return {each["job"]["name"]: each["job"]["id"] for each in told["all"]}


async def find(world: World, job_id: str) -> Job:
    async with world.store.snapshot() as uow:
        job = await uow.jobs.find(job_id)
    assert job is not None
    return job


async def events_of(world: World, job_id: str) -> list[str]:
    async with world.store.snapshot() as uow:
        return [record.name for record in await uow.events.list_by_job(job_id)]


async def leases_of(world: World, job_id: str) -> int:
    async with world.store.snapshot() as uow:
        return len(await uow.leases.list_by_job(job_id))


@pytest.mark.slow
async def test_nothing_is_searched_nor_rented_before_the_other_has_ended(world: World) -> None:
    world.agents.total_steps = 300
    await world.tick()
    within = THEN + '[deadline]\nwithin = "6h"\n'
    ids = await submit(world, FIRST, within)
    world.job_id = ids["first"]
    await world.until_running()
    waits = await world.jobs.show(ids["then"])
    assert (waits["job"]["status"], waits["job"]["reason"]) == ("pending", "waiting_for_jobs")
    assert (waits["job"]["deadline"], waits["job"]["due_within_s"]) == (None, 6 * 3600)
    (note,) = waits["job"]["waiting"]["notes"]
    assert (note["numbers"]["name"], note["numbers"]["status"]) == ("first", "running")
    async with world.store.snapshot() as uow:
        assert ids["then"] not in await uow.forecasts.of_jobs(list(ids.values())), "its start is unknown"
    await world.tick(10)
    assert await leases_of(world, ids["then"]) == 0
    ended = await world.until(lambda job: job.status.is_final, "the first has ended")
    await world.tick(2)
    begun = await find(world, ids["then"])
    assert ended.finished_at is not None
    assert begun.predecessors_ended_at == ended.finished_at
    assert begun.spec.deadline == ended.finished_at + timedelta(hours=6)
    world.job_id = ids["then"]
    await world.until_over()
    assert (await events_of(world, ids["then"])).count("job.predecessors_ended") == 1
    shown = await world.jobs.show(ids["then"])
    assert [(each["name"], each["on"], each["status"]) for each in shown["job"]["after"]] == [
        ("first", "ok", "succeeded")
    ]


async def test_a_parked_predecessor_is_waited_for_and_why_says_so(world: World) -> None:
    await world.tick()
    ids = await submit(world, FIRST, THEN)
    await world.jobs.stop(ids["first"])
    await world.tick(3)
    searches = await world.requests("search")
    await world.tick(5)
    assert await world.requests("search") == searches > 0, "nothing is looked for"
    told = await world.jobs.why(ids["then"], limit=20)
    assert [dict(note["numbers"])["status"] for note in told["job"]["waiting"]["notes"]] == ["parked"]
    await world.jobs.cancel(ids["first"])
    await world.tick(2)
    failed = await find(world, ids["then"])
    assert (failed.status, failed.reason) == (JobStatus.FAILED, Reason.DEPENDENCY_FAILED)
    assert world.creates() == 0


async def test_a_failure_goes_down_the_line_and_begins_what_waits_for_it(world: World) -> None:
    world.agents.total_steps, world.agents.exit_code = 20, 1
    await world.tick()
    once = FIRST + "[retry]\nmax_attempts = 1\n"
    ids = await submit(world, once, THEN, LAST, CLEAN)
    world.job_id = ids["first"]
    await world.until(lambda job: job.status is JobStatus.FAILED, "the first has failed")
    await world.tick(2)
    then, last = await find(world, ids["then"]), await find(world, ids["last"])
    assert [(job.status, job.reason) for job in (then, last)] == [(JobStatus.FAILED, Reason.DEPENDENCY_FAILED)] * 2
    assert not (await find(world, ids["clean"])).waits_for_jobs
    assert [await leases_of(world, ids[name]) for name in ("then", "last")] == [0, 0]


async def test_a_job_that_waits_can_be_changed_parked_and_cancelled(world: World) -> None:
    await world.tick()
    ids = await submit(world, FIRST, THEN + '[deadline]\nwithin = "6h"\n', LAST)
    changed = await world.jobs.change(ids["then"], {"deadline": "+2h"}, least_probability=0)
    assert (changed["job"]["deadline"], changed["job"]["due_within_s"]) == (None, 8 * 3600)
    changed = await world.jobs.change(ids["then"], {"deadline": "none"})
    assert (changed["job"]["deadline"], changed["job"]["due_within_s"]) == (None, None)
    await world.jobs.stop(ids["then"])
    await world.tick()
    assert (await find(world, ids["then"])).status is JobStatus.PARKED
    resumed = await world.jobs.resume(ids["then"])
    assert (resumed["job"]["status"], resumed["job"]["reason"]) == ("pending", "waiting_for_jobs")
    await world.jobs.cancel(ids["then"])
    await world.tick()
    assert (await find(world, ids["last"])).reason is Reason.DEPENDENCY_FAILED
    assert (await find(world, ids["first"])).status is not JobStatus.FAILED


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((THEN,), "after 'first': you have no such job"),
        ((named("a", 'after = ["a"]'),), "none could ever start: a → a"),
        ((named("a", 'after = ["b"]'), named("b", 'after = ["c"]'), named("c", 'after = ["a"]')), "→"),
        ((FIRST, FIRST.replace("10m", "20m"), THEN), "several of these jobs have that name"),
        ((FIRST, FIRST), "1.toml says the same as 0.toml"),
        ((FIRST, THEN.replace("RTX 4090", "RTX 9999")), "RTX 9999"),
        ((FIRST, taking("out")), "first has no output at 'out'; it keeps nothing: it has no [outputs]"),
        ((keeping("out", "*.txt"), taking("other/x")), "it keeps out, *.txt"),
        ((keeping("out") + ARRAY, taking("out")), "first is an array, and each of its tasks has its own outputs"),
    ],
)
async def test_a_set_that_cannot_be_is_refused_as_a_whole(world: World, texts: tuple[str, ...], message: str) -> None:
    await world.tick()
    with pytest.raises(UserError) as refused:
        await submit(world, *texts)
    assert message in str(refused.value)
    async with world.store.snapshot() as uow:
        assert await uow.jobs.list_open() == ()


async def test_others_jobs_are_no_predecessors(world: World) -> None:
    await world.tick()
    await submit(world, FIRST)
    with pytest.raises(UserError, match="you have no such job"):
        await submit(world, THEN, owner=1001)


@pytest.mark.parametrize("has_left", [True, False])
async def test_what_is_taken_must_be_there_before_anything_is_rented(world: World, has_left: bool) -> None:
    world.agents.total_steps = 20
    await world.tick()
    ids = await submit(world, keeping("out"), taking("out/model"))
    world.job_id = ids["first"]
    if has_left:
        manifest = Manifest(1, 1, (Part("a/out/1/part-0", 3, "0" * 64), Part("a/out/1/part-1", 3, "1" * 64)))
        await world.blobs.put(verified_outputs_key(ids["first"]), manifest.to_json())
    await world.until(lambda job: job.status.is_final, "the first has ended")
    await world.tick(3)
    taker = await find(world, ids["taker"])
    if not has_left:
        assert (taker.status, taker.reason) == (JobStatus.FAILED, Reason.DEPENDENCY_FAILED)
        assert await leases_of(world, taker.id) == 0
        return
    assert taker.predecessors_ended_at is not None
    world.job_id = taker.id
    await world.until_running()
    (lease,) = (await world.job()).leases
    orders = json.loads(await world.blobs.get(orders_key(taker.id, lease.id)) or b"")
    (left,) = orders["left"]
    assert (left["path"], left["left_at"], left["job"], orders["work"]["inputs"]) == (
        "data", "out/model", ids["first"], {},
    )  # fmt: skip
    await world.jobs.cancel(taker.id)


async def test_after_jobs_that_are_over(world: World) -> None:
    """By id: it begins at once where the other ended as asked, and is refused where it did not."""
    world.agents.total_steps = 20
    await world.tick()
    await world.submit(FIRST)
    await world.until(lambda job: job.status.is_final, "the first has ended")
    ids = await submit(world, named("then", f'after = ["{world.job_id}"]'))
    begun = await find(world, ids["then"])
    assert (begun.reason, begun.waits_for_jobs) == (Reason.SUBMITTED, False)
    with pytest.raises(
        UserError, match=r"until job first fails or is cancelled, and that one \(.*\) is succeeded already"
    ):
        await submit(world, CLEAN)


@asynccontextmanager
async def handing_over(root: Path) -> AsyncIterator[tuple[World, InterruptedStore, str]]:
    """A world in which the command of the first job has just ended, and no tick has seen it."""
    wrapper = Wrapper()
    async with a_world(root, wrapper) as world:
        world.agents.total_steps = 20
        await world.tick()
        ids = await submit(world, FIRST, THEN)
        world.job_id = ids["first"]
        await world.until_running()
        while (job := await world.job()).main is not None and job.main.agent.exit_code is None and job.step < 15:
            await world.tick()
        assert wrapper.store is not None
        yield world, wrapper.store, ids["then"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 7))
async def test_killed_anywhere_in_a_hand_over_the_other_begins_once(
    tmp_path: Path, number: int, moment: Moment
) -> None:
    async with handing_over(tmp_path) as (world, store, then):
        store.kill_at, store.moment = store.transactions + number, moment
        kills = 0
        for _ in range(100):
            try:
                await world.tick()
            except Killed:
                kills += 1
                await world.restart()
            if await leases_of(world, then):
                assert (await world.job()).status is JobStatus.SUCCEEDED
                break
        assert kills == 1
        world.job_id = then
        await world.until_over()
        assert (await events_of(world, then)).count("job.predecessors_ended") == 1
        created = [row["label"] for row in world.sent("instance.created")]
        assert len(created) == len(set(created)) == 2, "one machine for each of the two"
