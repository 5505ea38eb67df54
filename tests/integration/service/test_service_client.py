"""``autopilot.client`` at the socket of a real daemon, and against one that loses answers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from autopilot.client import ApiError, AsyncClient, Client, JobEnded, Unreachable, tries
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import ScheduleStatus
from autopilot.mailbox.keys import log_key
from autopilot.ports.store import EventRecord
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served, own_name
from tests.store_records import a_lease

GOOD = job_text(300, total='total = "$2"')


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared: Served) -> AsyncIterator[AsyncClient]:
    """At the service that the tests of this module share."""
    async with AsyncClient(socket=shared.daemon.settings.socket_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def alone(served: Served) -> AsyncIterator[AsyncClient]:
    """At a service with nothing in its ledger yet."""
    async with AsyncClient(socket=served.daemon.settings.socket_path) as made:
        yield made


def good() -> str:
    """The text of a job file, and no other's."""
    return job_text(300, own_name(), total='total = "$2"')


async def end(served: Served, job_id: str, status: JobStatus, reason: Reason) -> None:
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(job_id)
        assert job is not None
        await uow.jobs.save(replace(job, status=status, reason=reason))
        await uow.events.add([EventRecord(served.daemon.clock.now(), f"job.{status}", job_id, None)])


@pytest.mark.slow
async def test_jobs_are_submitted_changed_and_ended(alone: AsyncClient) -> None:
    assert (await alone.status()).jobs_open == 0
    plan = await alone.plan(GOOD)
    assert plan.budget == 2
    job = await alone.submit(GOOD)
    assert (job.data.status, job.data.budget, job.plan and job.plan.budget) == (
        JobStatus.PENDING,
        Decimal(2),
        Decimal(2),
    )
    assert (await alone.job(job.data.name)).id == job.id
    assert (await job.change(budget="$3")).budget == 3
    assert (await job.stop()).status is JobStatus.STOPPING
    assert (await job.refresh()).id == job.id
    assert (await alone.why(job.id)).job.id == job.id
    assert [row.id for row in (await alone.budget()).jobs] == [job.id]
    assert (await alone.spend("job")).total_row.posted == 0
    assert (await job.cancel()).status in (JobStatus.CANCELLING, JobStatus.CANCELLED)
    with pytest.raises(ApiError) as refused:
        await alone.outputs(job.id)
    assert (refused.value.status, refused.value.reason) == (422, "bad_input")


async def test_schedules_are_made_paused_and_ended(client: AsyncClient) -> None:
    made = await client.schedule(good() + '[schedule]\ncron = "0 2 * * *"\n')
    assert (made.status, made.fired, len(made.next)) == (ScheduleStatus.ACTIVE, 0, 3)
    assert [each.id for each in await client.schedules()] == [made.id]
    assert (await client.pause_schedule(made.name)).status is ScheduleStatus.PAUSED
    assert (await client.resume_schedule(made.id)).next == made.next
    assert (await client.end_schedule(made.id)).reason == "user_ended"
    assert (await client.schedules(), len(await client.schedules(all=True))) == ([], 1)
    with pytest.raises(ApiError) as unknown:
        await client.pause_schedule("nothing")
    assert unknown.value.reason == "not_found"


async def test_a_refusal_carries_its_reason(client: AsyncClient) -> None:
    text = good()
    job = await client.submit(text)
    with pytest.raises(ApiError) as double:
        await client.submit(text)
    assert (double.value.status, double.value.reason, double.value.job) == (409, "same_job_open", job.id)
    assert (await client.submit(text, again=True)).id != job.id
    with pytest.raises(ApiError) as unknown:
        await client.job("nothing")
    assert (unknown.value.reason, str(unknown.value)) == (
        "not_found",
        "no job 'nothing' (autopilot ps -a lists all jobs)",
    )


@pytest.mark.slow
async def test_lists_are_read_to_their_end(alone: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.client.asynchronous.PAGE", 2)
    made = [(await alone.submit(GOOD, again=True)).id for _ in range(5)]
    assert [job.id async for job in alone.jobs()] == made
    assert [job.id async for job in alone.jobs(all=True)] == made[::-1]
    submitted = [event.job_id async for event in alone.events() if event.name == "job.submitted"]
    assert submitted == made


@pytest.mark.slow
async def test_waiting_callers_get_the_end(shared: Served, client: AsyncClient) -> None:
    succeeding, parked = await client.submit(good()), await client.submit(good())
    waiting = asyncio.gather(succeeding.wait(), parked.wait(), return_exceptions=True)
    await end(shared, succeeding.id, JobStatus.SUCCEEDED, Reason.COMPLETED)
    await end(shared, parked.id, JobStatus.PARKED, Reason.BUDGET_EXHAUSTED)
    first, second = await waiting
    assert not isinstance(first, BaseException)
    assert first.status is JobStatus.SUCCEEDED
    assert isinstance(second, JobEnded)
    assert second.job.reason == "budget_exhausted"
    with pytest.raises(TimeoutError):
        await (await client.submit(good())).wait(timeout_s=0.2)


async def test_events_are_followed(client: AsyncClient) -> None:
    events = client.events(follow=True)
    job = await client.submit(good())
    while (await anext(events)).job_id != job.id:
        pass


async def test_output_is_read_and_followed(shared: Served, client: AsyncClient) -> None:
    job = await client.submit(good())
    for number in range(3):
        await shared.daemon.engine._blobs.put(log_key(job.id, f"lease-of-{job.id}", 1, number), f"{number}\n".encode())
    async with shared.daemon.engine._store.transaction() as uow:
        kept = await uow.jobs.find(job.id)
        assert kept is not None
        await uow.jobs.save(replace(kept, leases=(a_lease(f"lease-of-{job.id}", job.id, agent_boot=1),)))
    assert [chunk.text async for chunk in job.logs()] == ["0\n", "1\n", "2\n"]
    await end(shared, job.id, JobStatus.SUCCEEDED, Reason.COMPLETED)
    assert [chunk.text async for chunk in job.logs(follow=True)] == ["0\n", "1\n", "2\n"]


async def test_without_asyncio_it_is_the_same(shared: Served) -> None:
    def use() -> tuple[list[str], str]:
        with Client(socket=shared.daemon.settings.socket_path) as client:
            job = client.submit(good())
            assert [each.name for each in client.events() if each.job_id == job.id] == ["job.submitted"]
            assert job.refresh().id == job.id
            with pytest.raises(ApiError):
                client.job("nothing")
            return [each.id for each in client.jobs()], job.id

    listed, job_id = await asyncio.to_thread(use)
    assert job_id in listed


@contextlib.asynccontextmanager
async def a_daemon_that_loses_answers(count: int) -> AsyncIterator[tuple[Path, list[str | None]]]:
    """It acts on each request, and breaks off the first ``count`` of them. The keys that came."""
    keys: list[str | None] = []

    async def lose(request: web.Request) -> web.StreamResponse:
        await request.read()
        keys.append(request.headers.get("Idempotency-Key"))
        if len(keys) <= count and request.transport is not None:
            request.transport.close()
        problem = {"title": "", "status": 422, "reason": "bad_input", "detail": "no", "hint": ""}
        return web.json_response(problem, status=422)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", lose)
    runner = web.AppRunner(app)
    await runner.setup()
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        await web.UnixSite(runner, f"{name}/s").start()
        try:
            yield Path(name) / "s", keys
        finally:
            await runner.cleanup()


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "AGAIN_AFTER_S", (0.0, 0.0, 0.0))
    async with a_daemon_that_loses_answers(2) as (path, keys), AsyncClient(socket=path) as client:
        with pytest.raises(ApiError):
            await client.submit(GOOD)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


async def test_what_could_act_twice_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "AGAIN_AFTER_S", (0.0, 0.0, 0.0))
    async with a_daemon_that_loses_answers(9) as (path, keys), AsyncClient(socket=path) as client:
        with pytest.raises(Unreachable):
            await client.exec("job", "date")
    assert keys == [None]


async def test_an_absent_daemon_is_reported_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "AGAIN_AFTER_S", ())
    async with AsyncClient(socket=tmp_path / "none") as client:
        with pytest.raises(Unreachable, match=str(tmp_path / "none")):
            await client.status()


def with_code() -> str:
    return good() + '[code]\npath = "."\n'


def a_project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n" * 100_000)
    (tmp_path / "job.toml").write_text(with_code())
    return tmp_path / "job.toml"


async def test_code_is_packed_sent_once_and_taken(
    client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = a_project(tmp_path)
    assert (await client.plan(job_file)).budget == 2
    job = await client.submit(job_file)
    assert job.data.code is not None
    assert (job.data.code.files, job.data.code.is_dirty) == (2, False)
    sent: list[str] = []
    ask = client._http._ask

    async def watch(method: str, *rest: Any) -> Any:
        sent.append(method)
        return await ask(method, *rest)

    monkeypatch.setattr(client._http, "_ask", watch)
    assert (await client.submit(job_file, again=True)).data.code == job.data.code
    assert "PUT" not in sent, "the daemon has it"


@pytest.mark.parametrize("text", ["", "print(2)\n" * 100_000])
async def test_code_that_changes_on_its_way_is_not_sent(
    client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    job_file = a_project(tmp_path)
    ask = client._http.ask

    async def change(call: str, *rest: Any, **more: Any) -> Any:
        if call == "GET /v1/code/{sha256}":
            (tmp_path / "train.py").write_text(text)
        return await ask(call, *rest, **more)

    monkeypatch.setattr(client._http, "ask", change)
    with pytest.raises(UserError, match="changed while it was sent"):
        await client.submit(job_file)


async def test_code_of_a_text_is_relative_to_the_program_s_directory(
    client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = with_code()
    job = await client.submit(text)
    assert job.data.code is not None
    assert job.data.code.files == 2
    with pytest.raises(UserError, match="is not a directory"):
        await client.submit(text.replace('"."', '"none"'))


async def test_machines_are_blocked_and_forgiven(alone: AsyncClient) -> None:
    assert await alone.hosts() == []
    blocked = await alone.block_host("vastai", "a machine/never rented")
    assert blocked.blocked_at is not None
    assert await alone.block_host("vastai", "a machine/never rented") == blocked, "once more changes nothing"
    assert await alone.hosts(provider="vastai") == [blocked]
    assert await alone.hosts(provider="runpod") == []
    assert (await alone.forgive_host("vastai", "a machine/never rented")).blocked_at is None
    for call in (alone.block_host("nowhere", "1"), alone.forgive_host("vastai", "1")):
        with pytest.raises(ApiError):
            await call
