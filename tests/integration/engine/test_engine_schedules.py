"""Schedules on a market, by the engine's own ticks: each due instant fires once, even if the daemon fails."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.answers.models.schedules import ScheduleBody
from autopilot.api.access import ApiCaller, NotAllowed
from autopilot.api.confirmations import ConfirmFirst
from autopilot.api.submissions import Sent
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import MOST_SCHEDULES, Schedule, ScheduleReason, ScheduleStatus
from autopilot.domain.token import Scope, Token
from tests.integration.engine.engine_world import JOB, World, a_world
from tests.integration.engine.interrupted_store import Killed, Moment
from tests.integration.engine.test_engine_allowance import billed, until_parked
from tests.integration.engine.test_engine_kills import Wrapper

HOURLY = JOB.replace('total = "$9"', 'total = "$1"\nall = "$60/month"') + '[schedule]\ncron = "0 * * * *"\n'
QUEUED = HOURLY + 'overlap = "queue"\n'
HOUR = timedelta(hours=1)
USER = ApiCaller(1000)


async def create(world: World, text: str = HOURLY, caller: ApiCaller = USER, **asked: Any) -> dict[str, Any]:
    body = ScheduleBody(toml=text, source="job.toml", min_probability=0.0, **asked)
    return await world.jobs.schedules.create(Sent(text, "job.toml"), body, caller)


async def find(world: World, name: str = "train") -> Schedule:
    async with world.store.snapshot() as uow:
        found = await uow.schedules.find(name)
    assert found is not None
    return found


async def firings(world: World) -> list[Job]:
    async with world.store.snapshot() as uow:
        jobs = await uow.jobs.list_newest(limit=100)
    return sorted((job for job in jobs if job.due_at), key=lambda job: job.due_at or job.submitted_at)


def to_the_hour(world: World, past_s: float = 5.0) -> datetime:
    """Moves the clock just beyond the next full hour, and returns that hour."""
    hour = world.clock.now().replace(minute=0, second=0, microsecond=0) + HOUR
    world.clock.advance((hour - world.clock.now()).total_seconds() + past_s)
    return hour


async def said(world: World) -> list[dict[str, Any]]:
    async with world.store.snapshot() as uow:
        records = await uow.events.list_after()
    return [{"event": r.name, **dict(r.fields)} for r in records if r.name.startswith("schedule.")]


@pytest.mark.slow
async def test_a_firing_is_a_job_of_its_own_and_runs(world: World) -> None:
    world.agents.total_steps = 20
    await world.tick()
    within = HOURLY + 'count = 1\n[deadline]\nwithin = "6h"\n'
    made = await create(world, within)
    assert [datetime.fromisoformat(due).minute for due in made["next"]] == [0]
    assert (made["schedule"]["status"], made["schedule"]["fired"]) == ("active", 0)
    assert await firings(world) == []
    due = to_the_hour(world)
    await world.tick()
    (job,) = await firings(world)
    assert (job.due_at, job.spec.deadline, job.spec.schedule) == (due, due + 6 * HOUR, None)
    world.job_id = job.id
    await world.until_over()
    shown = (await world.jobs.schedules.overview(1000, all=True))["schedules"]
    assert [(each["status"], each["fired"], each["last"]["status"]) for each in shown] == [("ended", 1, "succeeded")]
    assert Decimal(shown[0]["posted"]) == sum((await world.spend()).values()) > 0
    assert (await world.jobs.show(job.id))["job"]["schedule"] == made["schedule"]["id"]
    assert [each["event"] for each in await said(world)][:2] == ["schedule.created", "schedule.fired"]


async def test_a_firing_that_overlaps_is_skipped_and_said(world: World) -> None:
    await world.tick()
    await create(world)
    to_the_hour(world)
    await world.tick()
    due = to_the_hour(world)
    await world.tick()
    assert len(await firings(world)) == 1
    schedule = await find(world)
    assert (schedule.left_out, schedule.left_out_at, schedule.left_out_reason) == (1, due, ScheduleReason.OVERLAP)
    assert [each["reason"] for each in await said(world) if each["event"] == "schedule.skipped"] == ["overlap"]


async def test_with_queue_one_firing_waits_and_no_more(world: World) -> None:
    await world.tick()
    await create(world, QUEUED)
    for _ in range(3):
        to_the_hour(world)
        await world.tick()
    first, second = await firings(world)
    assert (first.waits_for_jobs, second.waits_for_jobs) == (False, True)
    assert (await find(world)).left_out == 1
    await world.jobs.cancel(first.id)
    world.job_id = first.id
    await world.until(lambda job: job.status.is_final, "the first is over")
    await world.tick(2)
    assert not (await firings(world))[1].waits_for_jobs


@pytest.mark.parametrize(("catch_up", "made", "left_out"), [("false", 0, 5), ("true", 1, 4)])
async def test_what_was_missed_is_said_and_with_catch_up_fires_once(
    world: World, catch_up: str, made: int, left_out: int
) -> None:
    await world.tick()
    await create(world, HOURLY + f"catch_up = {catch_up}\n")
    world.clock.advance(5 * 3600)
    newest = world.clock.now().replace(minute=0, second=0, microsecond=0)
    if world.clock.now() - newest < timedelta(minutes=20):
        world.clock.advance(1200)
    await world.restart()
    await world.tick()
    assert [job.due_at for job in await firings(world)] == [newest] * made
    assert (await find(world)).left_out == left_out
    missed = [each for each in await said(world) if each["event"] == "schedule.missed"]
    assert [each["firings"] for each in missed] == [left_out]


async def test_a_clock_that_is_set_back_fires_nothing_twice(world: World) -> None:
    await create(world)

    async def look(after_s: float = 0.0) -> list[datetime | None]:
        """As each tick does; what is open is cancelled, so that it is in nothing's way."""
        world.clock.advance(after_s)
        await world.engine.firings.fire_due()
        for job in await firings(world):
            if not job.status.is_final:
                async with world.store.transaction() as uow:
                    await uow.jobs.save(replace(job, status=JobStatus.CANCELLED))
        return [job.due_at for job in await firings(world)]

    due = to_the_hour(world, 1.0)
    assert await look() == [due]
    assert await look(-30.0) == [due]
    assert await look(45.0) == [due]
    far = await look(400 * 24 * 3600.0)
    assert len(far) == 2
    assert await look(-400 * 24 * 3600.0) == far
    coming = to_the_hour(world)
    assert coming in await look(), "a step forward and back silences nothing"


@pytest.mark.slow
async def test_the_budget_over_all_firings_bounds_them_together(world: World) -> None:
    world.agents.total_steps = 100_000
    await world.tick()
    text = HOURLY.replace('"$1"', '"$0.50"').replace('"$60/month"', '"$0.50"').replace('"10m"', '"40h"')
    await create(world, text)
    to_the_hour(world)
    await world.tick()
    (job,) = await firings(world)
    world.job_id = job.id
    await world.jobs.change(job.id, {"budget": "$50"}, least_probability=0)
    parked = await until_parked(world, job.id)
    assert (parked.status, parked.reason) == (JobStatus.PARKED, Reason.OVER_SCHEDULE_BUDGET)
    assert Decimal("0.20") < await billed(world) <= Decimal("0.50")
    assert (await find(world)).left_out_reason is ScheduleReason.OVERLAP, "a parked firing is not over"


async def test_a_schedule_is_paused_resumed_and_ended(world: World) -> None:
    await world.tick()
    await create(world)
    schedules = world.jobs.schedules
    paused = await schedules.move("train", USER, ScheduleStatus.PAUSED)
    assert (paused["schedule"]["status"], paused["schedule"]["next"]) == ("paused", [])
    to_the_hour(world)
    await world.tick()
    await schedules.move("train", USER, ScheduleStatus.ACTIVE)
    await world.tick()
    assert await firings(world) == [], "what was due while it was paused is not made up for"
    to_the_hour(world)
    await world.tick()
    assert len(await firings(world)) == 1
    await schedules.move("train", USER, ScheduleStatus.ENDED)
    to_the_hour(world)
    await world.tick()
    (job,) = await firings(world)
    assert not job.status.is_final, "what it has made goes on"
    with pytest.raises(UserError, match="is ended already"):
        await schedules.move("train", USER, ScheduleStatus.ACTIVE)
    with pytest.raises(UserError, match="no schedule 'train'"):
        await schedules.move("train", ApiCaller(1001, _a_token()), ScheduleStatus.PAUSED)


@pytest.mark.parametrize(
    ("line", "reason", "count"), [("count = 2", "count_reached", 2), ('until = "2026-01-01"', "until_reached", None)]
)
async def test_a_schedule_ends_by_itself(world: World, line: str, reason: str, count: int | None) -> None:
    await world.tick()
    until = world.clock.now().replace(minute=0, second=0, microsecond=0) + 2 * HOUR
    await create(world, HOURLY + (f'until = "{until.isoformat()}"' if count is None else line) + "\n")
    for _ in range(4):
        to_the_hour(world)
        await world.tick()
        for job in await firings(world):
            if not job.status.is_final:
                await world.jobs.cancel(job.id)
        await world.tick()
    assert len(await firings(world)) == (count or 1)
    ended = await find(world)
    assert (ended.status, ended.reason.value) == (ScheduleStatus.ENDED, reason)


def _a_token(**changes: Any) -> Token:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    return replace(Token(1, "ci", "0" * 64, Scope.SUBMIT, False, (), made, None), **changes)


async def keep_token(world: World, **changes: Any) -> ApiCaller:
    token = _a_token(**changes)
    async with world.store.transaction() as uow:
        await uow.tokens.save(token)
    return ApiCaller(token.owner, token)


async def test_a_schedule_ends_with_its_token(world: World) -> None:
    await world.tick()
    caller = await keep_token(world)
    with pytest.raises(NotAllowed, match="must have a budget over all firings"):
        await create(world, HOURLY.replace('\nall = "$60/month"', ""), caller)
    await create(world, caller=caller)
    await keep_token(world, revoked_at=world.clock.now())
    await world.tick()
    ended = await find(world)
    assert (ended.status, ended.reason) == (ScheduleStatus.ENDED, ScheduleReason.TOKEN_ENDED)
    to_the_hour(world)
    await world.tick()
    assert await firings(world) == []


async def test_a_schedule_is_left_what_its_token_s_maker_leaves_and_ends_with_them(world: World) -> None:
    await world.tick()
    maker = _a_token(number=2, name="maker", sha256="1" * 64, scope=Scope.ADMIN, secrets=("hf",))
    caller = await keep_token(world, secrets=("hf",), made_by=maker.owner)
    await keep_token(world, **_changes(maker))
    await create(world, HOURLY + '[secrets]\nHF = "hf"\n', caller)
    for less, reason in (
        ({"secrets": ()}, ScheduleReason.NOT_ALLOWED),
        ({"scope": Scope.READ}, ScheduleReason.NOT_ALLOWED),
        ({"ask_above": Decimal("0.5")}, ScheduleReason.CONFIRM_FIRST),
    ):
        await keep_token(world, **_changes(maker) | less)
        to_the_hour(world)
        await world.tick()
        assert (await find(world)).left_out_reason is reason
    assert await firings(world) == []
    await keep_token(world, **_changes(maker) | {"revoked_at": world.clock.now()})
    await world.tick()
    ended = await find(world)
    assert (ended.status, ended.reason) == (ScheduleStatus.ENDED, ScheduleReason.TOKEN_ENDED)


def _changes(token: Token) -> dict[str, Any]:
    return {field.name: getattr(token, field.name) for field in fields(token)}


async def test_what_a_token_may_is_asked_at_each_firing(world: World) -> None:
    await world.tick()
    caller = await keep_token(world, secrets=("hf",))
    await create(world, HOURLY + '[secrets]\nHF = "hf"\n', caller)
    await keep_token(world, secrets=())
    to_the_hour(world)
    await world.tick()
    assert (await find(world)).left_out_reason is ScheduleReason.NOT_ALLOWED
    await keep_token(world, secrets=("hf",), scope=Scope.OPERATE)
    to_the_hour(world)
    await world.tick()
    assert (await find(world)).left_out_reason is ScheduleReason.NOT_ALLOWED
    assert [each["again"] for each in await said(world) if each["event"] == "schedule.skipped"] == [0, 1]
    await keep_token(world, secrets=("hf",), ask_above=Decimal("0.5"))
    to_the_hour(world)
    await world.tick()
    assert (await find(world)).left_out_reason is ScheduleReason.CONFIRM_FIRST
    await keep_token(world, secrets=("hf",), ask_above=Decimal(1))
    to_the_hour(world)
    await world.tick()
    assert len(await firings(world)) == 1


async def test_a_token_with_as_many_jobs_as_it_may_have_gets_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.engine.firings.MOST_OPEN_JOBS", 1)
    await world.tick()
    caller = await keep_token(world)
    await create(world, caller=caller)
    await create(world, HOURLY.replace('name = "train"', 'name = "second"', 1), caller)
    to_the_hour(world)
    await world.tick()
    assert len(await firings(world)) == 1
    assert (await find(world, "second")).left_out_reason is ScheduleReason.TOO_MANY_JOBS


async def test_a_person_confirms_a_schedule_once(world: World) -> None:
    await world.tick()
    caller = await keep_token(world, ask_above=Decimal("0.5"))
    with pytest.raises(ConfirmFirst) as asked:
        await create(world, caller=caller)
    confirmed = world.jobs.plans.confirm(asked.value.plan_id, USER)
    assert (confirmed["what"], confirmed["budget"]) == ("schedule", "60")
    assert confirmed["run"].startswith("0 * * * * (UTC): ")
    await create(world, caller=caller, plan=asked.value.plan_id)
    to_the_hour(world)
    await world.tick()
    assert len(await firings(world)) == 1


async def test_schedules_that_cannot_be_are_refused(world: World) -> None:
    await world.tick()
    await create(world)
    with pytest.raises(UserError, match="there is a schedule train already"):
        await create(world)
    with pytest.raises(UserError, match=r"with \[schedule\] is submitted by itself"):
        await world.submit(HOURLY)
    with pytest.raises(UserError, match=r"has no \[schedule\]"):
        await create(world, JOB)
    async with world.store.transaction() as uow:
        for number in range(MOST_SCHEDULES):
            one = await find(world)
            await uow.schedules.save(replace(one, id=f"s{number}", spec=replace(one.spec, name=f"s{number}")))
    with pytest.raises(NotAllowed, match="which is the limit"):
        await create(world, HOURLY.replace('name = "train"', 'name = "more"', 1))
    dry = await create(world, dry_run=True)
    assert (dry["schedule"], len(dry["next"])) == (None, 3)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
async def test_killed_at_a_firing_it_fires_once(tmp_path: Path, number: int, moment: Moment) -> None:
    wrapper = Wrapper()
    async with a_world(tmp_path, wrapper) as world:
        await world.tick()
        await create(world)
        due = to_the_hour(world)
        assert wrapper.store is not None
        wrapper.store.kill_at, wrapper.store.moment = wrapper.store.transactions + number, moment
        kills = 0
        for _ in range(3):
            try:
                await world.tick()
            except Killed:
                kills += 1
                await world.restart()
        assert kills == 1
        assert [job.due_at for job in await firings(world)] == [due]
        fired = [each for each in await said(world) if each["event"] == "schedule.fired"]
        assert [each["firing"] for each in fired] == [1]


async def test_two_daemons_fire_once(world: World) -> None:
    """The second has read what is due before the first wrote it."""
    await world.tick()
    await create(world)
    due = to_the_hour(world)
    first, second = world.engine.firings, world.engine.firings
    now = world.clock.now()
    schedule = await find(world)
    async with world.store.transaction() as uow:
        await first._look(uow, schedule.id, now)
    async with world.store.transaction() as uow:
        await uow.schedules.save(schedule)  # as if it had not seen the first one's write
        await second._look(uow, schedule.id, now)
    assert [job.due_at for job in await firings(world)] == [due]


SWEEP = HOURLY.replace('all = "$60/month"', 'all = "$0.50"')


async def create_array(world: World, text: str, table: str | None = None) -> dict[str, Any]:
    body = ScheduleBody(toml=text, source="job.toml", min_probability=0.0)
    return await world.jobs.schedules.create(Sent(text, "job.toml", table=table), body, USER)


async def tasks_of(world: World, array: Job) -> tuple[Job, ...]:
    async with world.store.snapshot() as uow:
        return await uow.jobs.list_tasks(array.id, limit=100)


async def test_each_firing_of_an_array_has_all_its_tasks(world: World) -> None:
    world.agents.total_steps = 100
    await world.tick()
    with pytest.raises(UserError, match=r"the table p\.csv was not sent"):
        await create_array(world, HOURLY + 'count = 2\n[array]\nfrom = "p.csv"\n')
    made = await create_array(world, HOURLY + 'count = 2\n[array]\nfrom = "p.csv"\n', "LR\n0.1\n0.2\n")
    assert made["plan"]["array"]["width"] == 2
    for number in (1, 2):
        to_the_hour(world)
        await world.tick()
        array = (await firings(world))[-1]
        assert (len(await firings(world)), array.is_array) == (number, True)
        world.job_id = array.id
        ended = await world.until(lambda job: job.status.is_final, "the array is over", 300)
        assert ended.status is JobStatus.SUCCEEDED
        assert [dict(task.spec.env)["LR"] for task in await tasks_of(world, array)] == ["0.1", "0.2"]
    await world.tick()
    schedule = await find(world)
    assert (schedule.status, schedule.fired) == (ScheduleStatus.ENDED, 2)
    await world.until_settled()
    async with world.store.snapshot() as uow:
        sums = await uow.ledger.sum_schedule(schedule.id, None)
        tasks = [task for array in await firings(world) for task in await tasks_of(world, array)]
    assert sums.posted == sum((task.spent for task in tasks), Decimal(0)) > 0
    assert (await world.jobs.show(tasks[0].id))["job"]["schedule"] == schedule.id


@pytest.mark.slow
async def test_the_budget_over_all_firings_bounds_their_tasks(world: World) -> None:
    world.agents.total_steps = 10_000
    await world.tick()
    await create_array(world, SWEEP.replace('total = "$1"', 'total = "$0.50"') + "[array]\ncount = 4\nparallel = 4\n")
    to_the_hour(world)
    await world.tick()
    (array,) = await firings(world)
    world.job_id = array.id
    await world.jobs.change(array.id, {"budget": "$50"}, least_probability=0)
    for _ in range(400):
        await world.tick()
        stood = {task.status for task in await tasks_of(world, array)}
        if stood == {JobStatus.PARKED}:
            break
    tasks = await tasks_of(world, array)
    assert {(task.status, task.reason) for task in tasks} == {(JobStatus.PARKED, Reason.OVER_SCHEDULE_BUDGET)}
    await world.until_settled()
    async with world.store.snapshot() as uow:
        sums = await uow.ledger.sum_schedule((await find(world)).id, None)
    assert Decimal("0.05") < sums.posted <= Decimal("0.50"), "what four machines need to stop safely is held back"
