"""Machines that run one task of an array after another, by the engine's own ticks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.agent_state import AgentState
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Scope, Token
from autopilot.engine import engine
from autopilot.mailbox.keys import exit_key, heartbeat_key
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat
from autopilot.ports.provider import Done
from tests.integration.engine.engine_world import World, a_world
from tests.integration.engine.interrupted_store import Killed, Moment
from tests.integration.engine.test_engine_arrays import (
    WIDE,
    an_array,
    read_statuses,
    runs_of,
    submit,
    tasks_of,
    until_ended,
)
from tests.integration.engine.test_engine_kills import Wrapper
from tests.patience import PATIENCE_S

D = Decimal
ONE_ATTEMPT = "[retry]\nmax_attempts = 1\n"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        made.agents.total_steps = 100
        made.limits = WIDE
        await made.restart()
        await made.tick()
        yield made


async def machines_of(world: World) -> dict[str, Lease]:
    """All that any task of the array ever had, by lease."""
    async with world.store.snapshot() as uow:
        leases = await uow.leases.list_by_jobs([task.id for task in await tasks_of(world)])
    return {lease.id: lease for lease in leases}


async def until_task_runs(world: World, number: int) -> Job:
    for _ in range(100):
        for task in await tasks_of(world):
            if task.task == number and task.status is JobStatus.RUNNING:
                return task
        await world.tick()
    raise AssertionError(f"task {number} does not run: {await read_statuses(world)}")


@pytest.mark.slow
async def test_the_next_task_runs_without_a_boot_and_tasks_add_up_to_the_bills(world: World) -> None:
    await submit(world, an_array("count = 6", "parallel = 2"))
    await until_task_runs(world, 3)
    halfway = [task for task in await tasks_of(world) if task.status is JobStatus.SUCCEEDED]
    assert halfway
    assert all(task.is_estimate for task in halfway), "a bill may change what the machine has cost"
    shown = await world.jobs.show(f"train/{halfway[0].task}")
    assert shown["job"]["is_estimate"]
    assert shown["leases"], "the machine that it had is told of still"
    await until_ended(world, JobStatus.SUCCEEDED)
    await world.until_settled()
    assert await runs_of(world) == [1] * 6
    leases = await machines_of(world)
    assert len(leases) == len(world.sent("instance.created")) == 2, "two machines for six tasks"
    assert sum(len(lease.uses) for lease in leases.values()) == 6
    async with world.store.snapshot() as uow:
        posted = await uow.ledger.sum_by_day(list(leases))
        by_report = [await uow.reports.sum_spend(job_id=task.id) for task in await tasks_of(world)]
        events = [record.name for record in await uow.events.list_after()]
    tasks = await tasks_of(world)
    total = sum((sum(days.values(), ZERO) for days in posted.values()), ZERO)
    assert sum((task.spent for task in tasks), ZERO) == total > 0
    assert all(task.spent > 0 for task in tasks)
    assert [sum((cell.amount for cell in source.cells), ZERO) for source in by_report] == [task.spent for task in tasks]
    assert not any(task.is_estimate for task in tasks)
    assert events.count("lease.inherited") == events.count("lease.handed_over") == 4
    shown = await world.jobs.show("train/5")
    assert D(shown["job"]["posted"]) == D(shown["spend"]["posted"]) == tasks[5].spent


@pytest.mark.slow
async def test_agents_that_cannot_are_released_as_before(world: World) -> None:
    world.agents.can_take_next = False
    await submit(world, an_array("count = 3", "parallel = 1"))
    await until_ended(world, JobStatus.SUCCEEDED)
    await world.until_settled()
    assert len(world.sent("instance.created")) == 3
    assert not any(lease.is_shared for lease in (await machines_of(world)).values())


async def test_a_machine_that_is_handed_over_late_takes_the_place_of_the_task_that_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call is on its way when the task ends, so its machine is free for the next one a tick later."""
    answered = asyncio.Event()

    async def start_slowly(_: str) -> Done[None]:
        await answered.wait()
        return Done(None)

    await submit(world, an_array("count = 3", "parallel = 1"))
    first = await until_task_runs(world, 0)
    assert first.main is not None
    monkeypatch.setattr(world.provider, "start", start_slowly)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(engine, "CALLS_WAIT_REAL_S", 0.0)
        world.engine.calls.start(first.main)
        while (await read_statuses(world))[0] is JobStatus.RUNNING:
            await world.tick()
    assert first.main.id in world.engine.calls.busy
    answered.set()
    await world.engine.calls.settle_for(PATIENCE_S)
    await world.tick()
    tasks = await tasks_of(world)
    assert [task.status.wants_capacity for task in tasks] == [False, True]
    assert tasks[1].main is not None
    assert tasks[1].main.id == first.main.id
    await until_ended(world, JobStatus.SUCCEEDED)
    assert len(world.sent("instance.created")) == 1, "a second machine ran beside it"
    assert await runs_of(world) == [1, 1, 1]


async def test_what_the_task_before_could_write_is_refused_and_what_it_says_is_not_believed(world: World) -> None:
    await submit(world, an_array("count = 2", "parallel = 1"))
    first = await until_task_runs(world, 0)
    assert first.main is not None
    lease_id = first.main.id
    second = await until_task_runs(world, 1)
    assert second.main is not None
    assert second.main.id == lease_id
    assert list(world.blobs.admitted) == [f"jobs/{second.id}/{lease_id}"], "what is signed for the first is refused"
    agent = world.agents.of(second.main.instance_id)
    old_epoch = first.run_epoch
    ended = ExitRecord(old_epoch, 1)
    said = Heartbeat(agent.boot, agent.seq + 5, old_epoch, 1, AgentState.FINISHED, step=99, progress=1.0, exit=ended)
    for job_id in (first.id, second.id):
        await world.blobs.put(exit_key(job_id, lease_id), ended.to_json())
        await world.blobs.put(heartbeat_key(job_id, lease_id), said.to_json())
    world.agents.deaf.add(lease_id)
    await world.tick()
    (_, now) = await tasks_of(world)
    assert (now.failures, now.exit_code, now.progress) == (0, None, None)
    assert (await tasks_of(world))[0].status is JobStatus.SUCCEEDED
    world.agents.deaf.clear()
    agent.seq += 5
    await until_ended(world, JobStatus.SUCCEEDED)
    assert await runs_of(world) == [1, 1]


async def test_a_machine_that_fails_a_task_at_once_gets_no_more_and_the_task_no_attempt_less(world: World) -> None:
    world.agents.total_steps = 30
    await submit(world, an_array("count = 3", "parallel = 1", more=ONE_ATTEMPT))
    first = await until_task_runs(world, 0)
    assert first.main is not None
    world.agents.failing.add(first.main.id)
    await until_ended(world, JobStatus.SUCCEEDED)
    assert set((await read_statuses(world)).values()) == {JobStatus.SUCCEEDED}
    tasks, leases = await tasks_of(world), await machines_of(world)
    assert [(task.failures, task.excused) for task in tasks] == [(0, 1), (0, 0), (0, 0)]
    assert len(leases) == 2
    bad = leases.pop(first.main.id)
    assert (bad.reason, len(bad.uses)) == (Reason.BAD_MACHINE, 1)
    assert bad.machine_id not in {lease.machine_id for lease in leases.values()}


async def test_a_task_that_fails_at_once_everywhere_fails_by_itself(world: World) -> None:
    world.agents.total_steps, world.agents.exit_code = 30, 1
    await submit(world, an_array("count = 1", more=ONE_ATTEMPT))
    await until_ended(world, JobStatus.FAILED)
    (task,) = await tasks_of(world)
    assert (task.failures, task.excused, task.status) == (1, 1, JobStatus.FAILED)
    assert len(await machines_of(world)) == 2


async def test_excused_failures_count_once_towards_the_most(world: World) -> None:
    world.agents.total_steps, world.agents.exit_code = 30, 1
    await submit(world, an_array("count = 6", "parallel = 3", "max_failures = 3"))
    job = await until_ended(world, JobStatus.FAILED)
    assert job.reason is Reason.TOO_MANY_FAILURES
    assert len(await machines_of(world)) <= 5, "little was rented for what fails everywhere"


@pytest.mark.slow
async def test_two_tasks_in_a_row_that_fail_on_a_machine_run_elsewhere(world: World) -> None:
    await submit(world, an_array("count = 4", "parallel = 1", more=ONE_ATTEMPT))
    first = await until_task_runs(world, 0)
    assert first.main is not None
    world.agents.failing.add(first.main.id)
    second = await until_task_runs(world, 1)
    assert second.main is not None
    assert second.main.id == first.main.id, "one failure that took its time says nothing of the machine"
    assert (await read_statuses(world))[0] is JobStatus.FAILED
    await until_ended(world, JobStatus.SUCCEEDED)
    tasks, leases = await tasks_of(world), await machines_of(world)
    assert [(task.failures, task.excused) for task in tasks] == [(0, 1), (0, 1), (0, 0), (0, 0)]
    assert leases[first.main.id].reason is Reason.BAD_MACHINE
    assert len(leases) == 2


async def test_of_a_token_that_has_ended_no_task_takes_a_machine(world: World) -> None:
    made_at = world.clock.now()
    token = Token(1, "ci", "a" * 64, Scope.SUBMIT, False, (), made_at, None, allowance=D(5))
    async with world.store.transaction() as uow:
        await uow.tokens.save(token)
    await submit(world, an_array("count = 3", "parallel = 1"), owner=token.owner)
    await until_task_runs(world, 0)
    async with world.store.transaction() as uow:
        await uow.tokens.save(replace(token, revoked_at=world.clock.now()))
    await world.tick(30)
    begun = await tasks_of(world)
    assert begun[0].status is JobStatus.SUCCEEDED, "what runs goes on"
    assert not any(task.launches for task in begun[1:]), "nothing of it begins any more"
    assert not any(task.leases for task in begun)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(7, 21))  # from the last checkpoint of the first tasks to the end of the last
async def test_killed_at_any_commit_nothing_is_handed_over_twice(tmp_path: Path, number: int, moment: Moment) -> None:
    wrapper = Wrapper()
    async with a_world(tmp_path, wrapper) as world:
        world.agents.total_steps = 20
        await world.tick()
        await submit(world, an_array("count = 5", "parallel = 2"))
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
        assert await read_statuses(world) == dict.fromkeys(range(5), JobStatus.SUCCEEDED)
        assert await runs_of(world) == [1] * 5
        await world.until_settled()
        leases = await machines_of(world)
        assert len(leases) == len(world.sent("instance.created")) == 2
        assert sum(len(lease.uses) for lease in leases.values()) == 5
