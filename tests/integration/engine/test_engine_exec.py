"""A command beside the job: how it gets into orders and out of them, and what becomes of answers that are none."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease
from autopilot.engine.execs import ExecBusy, NoAnswer
from autopilot.mailbox.exec_answers import ExecAnswer
from autopilot.mailbox.keys import orders_key
from tests.integration.engine.engine_world import JOB, World
from tests.patience import eventually

ME = os.getuid()
SAID = ExecAnswer(3, b"GPU 0: busy\xff\n", True, "exited")


async def orders_of(world: World, lease: Lease) -> Any:
    return json.loads(await world.blobs.get(orders_key(world.job_id, lease.id)) or b"{}")


async def asked(world: World, lease: Lease, command: str = "nvidia-smi", uid: int = ME) -> asyncio.Task[Any]:
    """A call whose command is in the orders."""
    call = asyncio.create_task(world.jobs.execs.call(world.job_id, command, 60, uid))

    async def is_ordered() -> bool:
        return call.done() or bool((await orders_of(world, lease))["exec"])

    await eventually(is_ordered, "the command in the orders")
    return call


@pytest.fixture
async def lease(world: World) -> AsyncIterator[Lease]:
    world.agents.total_steps = 2000
    yield await world.running()
    assert not world.engine.execs._calls


async def called(world: World) -> list[dict[str, Any]]:
    async with world.store.snapshot() as uow:
        return [dict(record.fields) for record in await uow.events.list_after() if record.name == "exec.called"]


async def test_a_command_goes_out_at_once_and_its_answer_is_kept_nowhere(world: World, lease: Lease) -> None:
    before = await orders_of(world, lease)
    world.agents.exec_answer = SAID
    call = await asked(world, lease)
    orders = await orders_of(world, lease)
    assert orders["exec"]["command"] == "nvidia-smi"
    assert orders["exec"]["timeout_s"] == 60
    assert orders["seq"] == before["seq"]  # no permit is renewed by it
    await world.agents.act(world.clock.now())
    assert await call == {"exit_code": 3, "output": "GPU 0: busy�\n", "is_cut": True, "ended": "exited"}
    assert (await orders_of(world, lease))["exec"] is None
    assert not [key for key in await world.blobs.sizes(f"jobs/{world.job_id}") if "/exec/" in key]
    assert await called(world) == [{"uid": ME, "exit_code": 3, "ended": "exited"}]
    async with world.store.snapshot() as uow:
        assert not [record for record in await uow.events.list_after() if "GPU 0" in repr(record)]


async def test_a_tick_meanwhile_keeps_the_command_in_the_orders(world: World, lease: Lease) -> None:
    world.agents.exec_answer = None
    call = await asked(world, lease)
    await world.tick(5)
    assert (await orders_of(world, lease))["exec"]["command"] == "nvidia-smi"
    assert (await orders_of(world, lease))["seq"] > 1
    world.agents.exec_answer = SAID
    await world.agents.act(world.clock.now())
    assert (await call)["exit_code"] == 3


async def test_one_command_of_a_job_at_a_time(world: World, lease: Lease) -> None:
    call = await asked(world, lease)
    with pytest.raises(ExecBusy, match="under way"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)
    await world.agents.act(world.clock.now())
    await call
    call = await asked(world, lease)
    await world.agents.act(world.clock.now())
    assert (await call)["exit_code"] == 0


@pytest.mark.parametrize("answer", [b"", b"\xff", b"[]", b'{"v": 1}', b"[" * 100_000, b"9" * 1_400_001])
async def test_an_answer_that_is_none_is_an_error_and_leaves_nothing(world: World, lease: Lease, answer: bytes) -> None:
    world.agents.exec_answer = answer
    call = await asked(world, lease)
    await world.agents.act(world.clock.now())
    with pytest.raises(NoAnswer, match="cannot be read"):
        await call
    assert (await orders_of(world, lease))["exec"] is None
    assert await called(world) == [{"uid": ME, "exit_code": None, "ended": "unanswered"}]


async def test_a_machine_that_says_nothing_is_not_waited_for_for_ever(world: World, lease: Lease) -> None:
    world.engine.execs.fetch_within_s = -59.5
    world.agents.exec_answer = None
    with pytest.raises(NoAnswer, match="did not answer"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)
    assert (await orders_of(world, lease))["exec"] is None
    assert await called(world) == [{"uid": ME, "exit_code": None, "ended": "unanswered"}]


async def test_with_its_machine_a_call_ends(world: World, lease: Lease) -> None:
    world.agents.exec_answer = None
    call = await asked(world, lease)
    await world.jobs.cancel(world.job_id)
    await world.until(lambda job: job.status is JobStatus.CANCELLED, "cancelled")
    await world.tick()
    with pytest.raises(NoAnswer, match="released"):
        await call
    await world.tick()
    assert await world.blobs.get(orders_key(world.job_id, lease.id)) is None


async def test_a_daemon_ends_without_waiting_for_answers_and_its_successor_asks_nothing(
    world: World, lease: Lease
) -> None:
    world.agents.exec_answer = None
    call = await asked(world, lease)
    world.engine.execs.close()
    with pytest.raises(NoAnswer, match="shutting down"):
        await call
    await world.restart()
    with pytest.raises(UserError, match="too old to run commands"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)
    await world.tick()
    assert (await orders_of(world, lease))["exec"] is None
    call = await asked(world, lease)
    world.agents.exec_answer = SAID
    await world.agents.act(world.clock.now())
    assert (await call)["exit_code"] == 3


async def test_orders_of_a_daemon_that_was_killed_lose_their_command(world: World, lease: Lease) -> None:
    world.agents.exec_answer = None
    call = await asked(world, lease)
    left_behind = await world.blobs.get(orders_key(world.job_id, lease.id)) or b""
    call.cancel()
    await asyncio.wait({call})
    await world.blobs.put(orders_key(world.job_id, lease.id), left_behind)
    await world.restart()
    await world.tick()
    assert (await orders_of(world, lease))["exec"] is None


async def test_only_agents_that_say_so_get_commands(world: World) -> None:
    world.agents.total_steps, world.agents.can_exec = 2000, False
    await world.running()
    with pytest.raises(UserError, match="too old to run commands"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)


async def test_the_job_file_switches_it_off(world: World) -> None:
    world.agents.total_steps = 2000
    await world.running(JOB + "[debug]\nexec = false\n")
    with pytest.raises(UserError, match="exec = false"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)


async def test_only_its_owner_the_daemon_and_root_enter_a_job(world: World, lease: Lease) -> None:
    stranger = ME + 4242
    with pytest.raises(UserError, match="another user's"):
        await world.jobs.execs.call(world.job_id, "true", 60, stranger)


async def test_without_a_machine_there_is_nothing_to_enter(world: World) -> None:
    await world.tick()
    await world.submit()
    with pytest.raises(UserError, match="no running machine"):
        await world.jobs.execs.call(world.job_id, "true", 60, ME)


@pytest.mark.parametrize(
    ("command", "timeout_s", "problem"),
    [
        ("", 60, "needs a command"),
        (" ", 60, "needs a command"),
        ("a\0b", 60, "needs a command"),
        ("x" * 64_001, 60, "64,000 bytes"),
        ("true", 0, "from 1 to 600"),
        ("true", 601, "from 1 to 600"),
    ],
)
async def test_what_cannot_be_asked_is_refused(world: World, command: str, timeout_s: int, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        await world.jobs.execs.call("any", command, timeout_s, ME)
