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
from aiohttp import web

from autopilot.client import ApiError, AsyncClient, Client, JobEnded, Unreachable, http
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import ScheduleStatus
from autopilot.mailbox.keys import log_key
from autopilot.ports.store import EventRecord
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served
from tests.store_records import a_lease

GOOD = job_text(300, total='total = "$2"')


@pytest.fixture
async def client(served: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(socket=served.daemon.settings.socket_path) as made:
        yield made


async def end(served: Served, job_id: str, status: JobStatus, reason: Reason) -> None:
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(job_id)
        assert job is not None
        await uow.jobs.save(replace(job, status=status, reason=reason))
        await uow.events.add([EventRecord(served.daemon.clock.now(), f"job.{status}", job_id, None)])


async def test_jobs_are_submitted_changed_and_ended(served: Served, client: AsyncClient) -> None:
    assert (await client.status()).jobs_open == 0
    plan = await client.plan(GOOD)
    assert plan.budget == 2
    job = await client.submit(GOOD)
    assert (job.data.status, job.data.budget, job.plan and job.plan.budget) == (
        JobStatus.PENDING,
        Decimal(2),
        Decimal(2),
    )
    assert (await client.job(job.data.name)).id == job.id
    assert (await job.change(budget="$3")).budget == 3
    assert (await job.stop()).status is JobStatus.STOPPING
    assert (await job.refresh()).id == job.id
    assert (await client.why(job.id)).job.id == job.id
    assert [row.id for row in (await client.budget()).jobs] == [job.id]
    assert (await client.spend("job")).total_row.posted == 0
    assert (await job.cancel()).status in (JobStatus.CANCELLING, JobStatus.CANCELLED)
    with pytest.raises(ApiError) as refused:
        await client.outputs(job.id)
    assert (refused.value.status, refused.value.reason) == (422, "bad_input")


async def test_schedules_are_made_paused_and_ended(client: AsyncClient) -> None:
    made = await client.schedule(GOOD + '[schedule]\ncron = "0 2 * * *"\n')
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
    job = await client.submit(GOOD)
    with pytest.raises(ApiError) as double:
        await client.submit(GOOD)
    assert (double.value.status, double.value.reason, double.value.job) == (409, "same_job_open", job.id)
    assert (await client.submit(GOOD, again=True)).id != job.id
    with pytest.raises(ApiError) as unknown:
        await client.job("nothing")
    assert (unknown.value.reason, str(unknown.value)) == (
        "not_found",
        "no job 'nothing' (autopilot ps -a lists all jobs)",
    )


async def test_lists_are_read_to_their_end(
    served: Served, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.client.asynchronous.PAGE", 2)
    made = [(await client.submit(GOOD, again=True)).id for _ in range(5)]
    assert [job.id async for job in client.jobs()] == made
    assert [job.id async for job in client.jobs(all=True)] == made[::-1]
    submitted = [event.job_id async for event in client.events() if event.name == "job.submitted"]
    assert submitted == made


async def test_whoever_waits_learns_of_the_end(served: Served, client: AsyncClient) -> None:
    good, bad = await client.submit(GOOD), await client.submit(GOOD, again=True)
    waiting = asyncio.gather(good.wait(timeout_s=30), bad.wait(timeout_s=30), return_exceptions=True)
    await end(served, good.id, JobStatus.SUCCEEDED, Reason.COMPLETED)
    await end(served, bad.id, JobStatus.PARKED, Reason.BUDGET_EXHAUSTED)
    first, second = await waiting
    assert not isinstance(first, BaseException)
    assert first.status is JobStatus.SUCCEEDED
    assert isinstance(second, JobEnded)
    assert second.job.reason == "budget_exhausted"
    with pytest.raises(TimeoutError):
        await (await client.submit(GOOD, again=True)).wait(timeout_s=0.2)


async def test_events_are_followed(client: AsyncClient) -> None:
    events = client.events(follow=True)
    job = await client.submit(GOOD)
    async with asyncio.timeout(20):
        while (await anext(events)).job_id != job.id:
            pass


async def test_output_is_read_and_followed(served: Served, client: AsyncClient) -> None:
    job = await client.submit(GOOD)
    for number in range(3):
        await served.daemon.engine._blobs.put(log_key(job.id, "lease-1", 1, number), f"{number}\n".encode())
    async with served.daemon.engine._store.transaction() as uow:
        kept = await uow.jobs.find(job.id)
        assert kept is not None
        await uow.jobs.save(replace(kept, leases=(a_lease("lease-1", job.id, agent_boot=1),)))
    assert [chunk.text async for chunk in job.logs()] == ["0\n", "1\n", "2\n"]
    await end(served, job.id, JobStatus.SUCCEEDED, Reason.COMPLETED)
    assert [chunk.text async for chunk in job.logs(follow=True)] == ["0\n", "1\n", "2\n"]


async def test_without_asyncio_it_is_the_same(served: Served) -> None:
    def use() -> tuple[list[str], str]:
        with Client(socket=served.daemon.settings.socket_path) as client:
            job = client.submit(GOOD)
            assert [each.name for each in client.events() if each.job_id == job.id] == ["job.submitted"]
            assert job.refresh().id == job.id
            with pytest.raises(ApiError):
                client.job("nothing")
            return [each.id for each in client.jobs()], job.id

    listed, job_id = await asyncio.to_thread(use)
    assert listed == [job_id]


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
    monkeypatch.setattr(http, "AGAIN_AFTER_S", (0.0, 0.0, 0.0))
    async with a_daemon_that_loses_answers(2) as (path, keys), AsyncClient(socket=path) as client:
        with pytest.raises(ApiError):
            await client.submit(GOOD)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


async def test_what_could_act_twice_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "AGAIN_AFTER_S", (0.0, 0.0, 0.0))
    async with a_daemon_that_loses_answers(9) as (path, keys), AsyncClient(socket=path) as client:
        with pytest.raises(Unreachable):
            await client.exec("job", "date")
    assert keys == [None]


async def test_nobody_there_is_said_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "AGAIN_AFTER_S", ())
    async with AsyncClient(socket=tmp_path / "none") as client:
        with pytest.raises(Unreachable, match=str(tmp_path / "none")):
            await client.status()


WITH_CODE = GOOD + '[code]\npath = "."\n'


def a_project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n" * 100_000)
    (tmp_path / "job.toml").write_text(WITH_CODE)
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
    send = AsyncClient._send_code

    async def change(self: AsyncClient, packed: Any) -> None:
        (tmp_path / "train.py").write_text(text)
        await send(self, packed)

    monkeypatch.setattr(AsyncClient, "_send_code", change)
    with pytest.raises(UserError, match="changed while it was sent"):
        await client.submit(job_file)


async def test_code_of_a_text_is_relative_to_the_program_s_directory(
    client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    job = await client.submit(WITH_CODE)
    assert job.data.code is not None
    assert job.data.code.files == 2
    with pytest.raises(UserError, match="is no directory"):
        await client.submit(WITH_CODE.replace('"."', '"none"'))
