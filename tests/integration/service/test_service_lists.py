"""Pages of jobs, chosen fields, events since an instant, and a job's output as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from autopilot.api import callers, event_feed, log_feed
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.mailbox.keys import log_key
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import BELOW_ALL, Served, own_name
from tests.store_records import a_lease

GOOD = job_text(300, total='total = "$2"')
UNRENTED = GOOD + BELOW_ALL


async def submit(served: Served, count: int = 1, *, toml: str = GOOD) -> list[str]:
    made = []
    for _ in range(count):
        wish = {"toml": toml, "again": True, "min_probability": 0}
        status, body = await served.call("POST", "/v1/jobs", wish)
        assert status == 201, body
        made.append(body["job"]["id"])
    return made


async def all_pages(served: Served, query: str) -> list[list[str]]:
    pages, after = [], ""
    while True:
        status, body = await served.call("GET", f"/v1/jobs?{query}&after={after}")
        assert status == 200, body
        pages.append([job["id"] for job in body["jobs"]])
        if body["next"] is None:
            return pages
        after = body["next"]


@pytest.mark.slow
async def test_pages_bring_each_job_once_in_the_order_of_the_list(served: Served) -> None:
    jobs = await submit(served, 5, toml=UNRENTED)
    await served.call("POST", f"/v1/jobs/{jobs[1]}/cancel")
    await served.daemon.engine.tick()
    newest_first = jobs[::-1]
    assert await all_pages(served, "all=1&limit=2") == [newest_first[:2], newest_first[2:4], newest_first[4:]]
    still_open = [each for each in jobs if each != jobs[1]]
    assert await all_pages(served, "limit=3") == [still_open[:3], still_open[3:]]
    assert await all_pages(served, "all=1&limit=5") == [newest_first]


@pytest.mark.slow
async def test_a_list_may_begin_at_an_instant(served: Served) -> None:
    (before,) = await submit(served)
    at = served.daemon.clock.now().isoformat().replace("+00:00", "Z")
    after = await submit(served, 2)
    for query in ("all=1", "all=0"):
        status, body = await served.call("GET", f"/v1/jobs?{query}&since={at}")
        assert (status, {job["id"] for job in body["jobs"]}) == (200, set(after))
    assert {job["id"] for job in (await served.call("GET", "/v1/jobs?since=1h"))[1]["jobs"]} == {before, *after}
    events = (await served.call("GET", f"/v1/events?since={at}"))[1]["events"]
    assert {event["job_id"] for event in events} == set(after)


async def test_fields_are_those_that_are_asked_for(served: Served) -> None:
    (job,) = await submit(served)
    assert (await served.call("GET", "/v1/jobs?fields=id,status"))[1]["jobs"] == [{"id": job, "status": "pending"}]
    events = (await served.call("GET", "/v1/events?fields=job_id,name"))[1]["events"]
    assert {"job_id": job, "name": "job.submitted"} in events


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("jobs?fields=id,colour", "'colour'"),
        ("jobs?limit=0", "limit"),
        ("jobs?limit=100000", "limit"),
        ("jobs?after=nothing", "after"),
        ("jobs?since=yesterday", "not a duration"),
        ("events?fields=colour", "'colour'"),
        ("events?since=2026-01-01", "without its zone"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(shared: Served, query: str, said: str) -> None:
    await submit(shared)
    status, body = await shared.call("GET", f"/v1/{query}")
    assert (status, said in body["detail"]) == (422, True), body


async def test_a_page_of_another_s_job_tells_a_token_nothing(shared: Served) -> None:
    (theirs,) = await submit(shared)
    made = (await shared.call("POST", "/v1/tokens", {"name": own_name("ci"), "scope": "read"}))[1]
    login = {"Authorization": f"Bearer {made['secret']}"}
    details = []
    for after in (theirs, "01JNOTHERE"):
        async with shared.http.get(f"http://localhost/v1/jobs?after={after}", headers=login) as answer:
            assert answer.status == 422
            details.append((await answer.json(content_type=None))["detail"])
    assert details[0] == details[1]


async def write_output(served: Served, job_id: str, numbers: range) -> None:
    for number in numbers:
        await served.daemon.engine._blobs.put(log_key(job_id, lease_of(job_id), 1, number), f"line {number}\n".encode())


def lease_of(job_id: str) -> str:
    return f"lease-of-{job_id}"


@pytest.fixture(autouse=True)
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_feed, "LOOK_EVERY_S", 0.02)


@pytest_asyncio.fixture(loop_scope="module")
async def printing(shared: Served) -> str:
    return await a_printing_job(shared)


async def a_printing_job(served: Served) -> str:
    """A job whose machine has printed three chunks."""
    (job_id,) = await submit(served)
    await write_output(served, job_id, range(3))
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(job_id)
        assert job is not None
        await uow.jobs.save(replace(job, leases=(a_lease(lease_of(job_id), job_id, agent_boot=1),)))
    return job_id


async def end(served: Served, job_id: str) -> None:
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(job_id)
        assert job is not None
        await uow.jobs.save(replace(job, status=JobStatus.SUCCEEDED, reason=Reason.COMPLETED))


async def stream(served: Served, path: str, **headers: str) -> AsyncGenerator[tuple[str, str, Any], None]:
    """(id, name, body) of each."""
    wanted = {"Accept": "text/event-stream"} | headers
    async with served.http.get(f"http://localhost{path}", headers=wanted) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()
        fields: dict[str, str] = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name and value:
                fields[name] = value
            elif fields.get("data"):
                yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                fields = {}


async def take(events: AsyncIterator[tuple[str, str, Any]], count: int) -> list[tuple[str, str, Any]]:
    return [await anext(events) for _ in range(count)]


async def test_output_is_followed_to_the_job_s_end(shared: Served, printing: str) -> None:
    async with aclosing(stream(shared, f"/v1/jobs/{printing}/logs")) as events:
        first = await take(events, 3)
        assert [body["text"] for _, _, body in first] == ["line 0\n", "line 1\n", "line 2\n"]
        assert [name for _, name, _ in first] == ["log"] * 3
        await write_output(shared, printing, range(3, 4))
        ((key, _, body),) = await take(events, 1)
        assert (key, body["text"]) == (body["key"], "line 3\n")
        await end(shared, printing)
        assert await take(events, 1) == [("", "end", {})]
        assert [each async for each in events] == []


async def test_output_goes_on_where_the_line_was_lost(shared: Served, printing: str) -> None:
    path = f"/v1/jobs/{printing}/logs"
    async with aclosing(stream(shared, path)) as events:
        known, _, _ = (await take(events, 2))[1]
    await end(shared, printing)
    rest = [each async for each in stream(shared, path, **{"Last-Event-ID": known})]
    assert [(name, body.get("text")) for _, name, body in rest] == [("log", "line 2\n"), ("end", None)]
    tail = [body.get("text") async for _, _, body in stream(shared, f"{path}?tail=1")]
    assert tail == ["line 0\n", "line 1\n", "line 2\n", None]


@pytest.mark.slow
async def test_so_many_follow_output_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    printing = await a_printing_job(served)
    monkeypatch.setattr(log_feed, "FOLLOWERS", 1)
    path = f"/v1/jobs/{printing}/logs"
    async with aclosing(stream(served, path)) as events:
        await take(events, 1)
        wanted = {"Accept": "text/event-stream"}
        async with served.http.get(f"http://localhost{path}", headers=wanted) as refused:
            assert (refused.status, (await refused.json(content_type=None))["reason"]) == (429, "too_many_follow")
        assert (await served.call("GET", path))[0] == 200, "pages are there all the same"


@pytest.mark.slow
async def test_one_owner_takes_not_the_room_of_all_who_follow(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    printing = await a_printing_job(served)
    monkeypatch.setattr(log_feed, "FOLLOWERS_OF_AN_OWNER", 1)
    path, wanted = f"/v1/jobs/{printing}/logs", {"Accept": "text/event-stream"}
    status, made = await served.call("POST", "/v1/tokens", {"name": "reads", "scope": "read", "sees_all": True})
    assert status == 201
    login = {"Authorization": f"Bearer {made['secret']}"}
    async with aclosing(stream(served, path, **login)) as theirs:
        await take(theirs, 1)
        async with served.http.get(f"http://localhost{path}", headers=wanted | login) as refused:
            assert (refused.status, (await refused.json(content_type=None))["reason"]) == (429, "too_many_follow")
        async with aclosing(stream(served, path)) as ours:
            await take(ours, 1)


@pytest.mark.slow
async def test_what_the_daemon_knows_to_be_secret_is_in_no_output(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's own secrets, and the market's key."""
    secret = tmp_path / "secret_hugging"
    secret.touch(mode=0o600)
    secret.write_text("hf_AbCdEfGhIjKlMnOp")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    printing = await a_printing_job(served)
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(printing)
        assert job is not None
        await uow.jobs.save(replace(job, spec=replace(job.spec, secrets=(("HF_TOKEN", "hugging"),))))
    for number, data in enumerate((b"env HF_TOKEN=hf_AbCdEf", b"GhIjKlMnOp", b" sandbox-key\n")):
        await served.daemon.engine._blobs.put(log_key(printing, lease_of(printing), 1, number), data)
    path, shown = f"/v1/jobs/{printing}/logs", ["env HF_TOKEN=[secret]", "[secret]", " [secret]\n"]
    for query in ("", "?tail=1"):
        status, page = await served.call("GET", path + query)
        assert (status, [chunk["text"] for chunk in page["chunks"]]) == (200, shown)
    await end(served, printing)
    assert [body.get("text") async for _, _, body in stream(served, path)] == [*shown, None]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["logs", "events"])
async def test_a_token_that_is_revoked_follows_nothing_any_more(
    shared: Served, printing: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(callers, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(event_feed, "KEEP_ALIVE_S", 0.02)
    name = own_name("ci")
    made = (await shared.call("POST", "/v1/tokens", {"name": name, "scope": "read", "sees_all": True}))[1]
    path = f"/v1/jobs/{printing}/logs" if what == "logs" else "/v1/events"
    async with aclosing(stream(shared, path, Authorization=f"Bearer {made['secret']}")) as events:
        await take(events, 1)
        await shared.call("POST", f"/v1/tokens/{name}/revoke")
        assert "end" not in [name async for _, name, _ in events], "it was cut off, the job goes on"
