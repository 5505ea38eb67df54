"""Following events: as a stream, or in pages that wait, by clients that may see them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from autopilot.api import event_feed
from autopilot.ports.store import EventRecord
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served, own_name

GOOD = job_text(300, total='total = "$2"')


@pytest.fixture(autouse=True)
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "LOOK_EVERY_S", 0.02)


async def a_token(served: Served, name: str, *, sees_all: bool = False) -> dict[str, str]:
    wish = {"name": name, "scope": "submit", "sees_all": sees_all}
    status, body = await served.call("POST", "/v1/tokens", wish)
    assert status == 201
    return {"Authorization": f"Bearer {body['secret']}"}


async def submit(served: Served, login: dict[str, str] | None = None) -> str:
    body = {"toml": GOOD, "again": True}
    async with served.http.post("http://localhost/v1/jobs", json=body, headers=login) as answer:
        assert answer.status == 201
        return str((await answer.json())["job"]["id"])


async def page(served: Served, query: str, login: dict[str, str] | None = None) -> Any:
    async with served.http.get(f"http://localhost/v1/events?{query}", headers=login) as answer:
        assert answer.status == 200
        return await answer.json()


async def stream(served: Served, after: int, **headers: str) -> AsyncGenerator[tuple[int, str, Any], None]:
    """(id, name, the event) of each."""
    wanted = {"Accept": "text/event-stream"} | headers
    async with served.http.get(f"http://localhost/v1/events?after={after}", headers=wanted) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        fields: dict[str, str] = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name and value:
                fields[name] = value
            elif fields.get("data"):
                yield int(fields["id"]), fields["event"], json.loads(fields["data"])
                fields = {}


async def take(events: AsyncIterator[tuple[int, str, Any]], count: int) -> list[tuple[int, str, Any]]:
    return [await anext(events) for _ in range(count)]


async def test_a_stream_brings_what_was_and_what_comes_and_goes_on_where_it_was_cut_off(shared: Served) -> None:
    first = await submit(shared)
    known = (await page(shared, "after=0"))["events"]
    async with aclosing(stream(shared, 0)) as events:
        assert [event for _, _, event in await take(events, len(known))] == known
        second = await submit(shared)
        ((seq, name, event),) = await take(events, 1)
        assert (seq, name, event["name"], event["job_id"]) == (event["seq"], event["name"], "job.submitted", second)
    assert first != second
    third = await submit(shared)
    async with aclosing(stream(shared, 0, **{"Last-Event-ID": str(seq)})) as events:
        ((_, _, event),) = await take(events, 1)
        assert event["job_id"] == third


async def test_a_page_that_waits_is_answered_by_the_next_event_or_after_its_time(shared: Served) -> None:
    await submit(shared)
    after = (await page(shared, "after=0"))["after"]
    empty = await page(shared, f"after={after}&wait_s=1")
    assert empty == {"events": [], "after": after}
    waiting = asyncio.create_task(page(shared, f"after={after}&wait_s=60"))
    await asyncio.sleep(0.05)
    job = await submit(shared)
    found = await waiting
    assert found["events"][0]["job_id"] == job
    assert found["after"] == found["events"][-1]["seq"]


async def test_a_token_follows_its_own_jobs_and_with_all_everybody_s(shared: Served) -> None:
    mine, other, all_of_them = (
        await a_token(shared, own_name("mine")),
        await a_token(shared, own_name("other")),
        await a_token(shared, own_name("all"), sees_all=True),
    )
    theirs, own = await submit(shared, other), await submit(shared, mine)
    async with shared.daemon.engine._store.transaction() as uow:
        at = shared.daemon.clock.now() + timedelta(seconds=1)
        await uow.events.add([EventRecord(at, "market.unread", None, None)])
    seen = (await page(shared, "after=0", mine))["events"]
    assert {event["job_id"] for event in seen} == {own}
    everything = (await page(shared, "after=0", all_of_them))["events"]
    assert {event["job_id"] for event in everything} >= {own, theirs, None}
    newest = everything[-1]["seq"]
    assert await page(shared, f"after={newest - 1}", mine) == {"events": [], "after": newest}, "it skips what is hidden"
    async with aclosing(stream(shared, 0, **mine)) as events:
        await take(events, len(seen))
        await submit(shared, other)
        again = await submit(shared, mine)
        ((_, _, event),) = await take(events, 1)
        assert event["job_id"] == again


@pytest.mark.slow
async def test_own_events_are_found_behind_many_of_others(served: Served) -> None:
    mine = await a_token(served, "mine")
    theirs = await submit(served)
    async with served.daemon.engine._store.transaction() as uow:
        now = served.daemon.clock.now()
        await uow.events.add(EventRecord(now, "lease.rebid", theirs, None, (("n", n),)) for n in range(2500))
    own = await submit(served, mine)
    assert [event["job_id"] for event in (await page(served, "after=0", mine))["events"]] == [own]


async def test_so_many_follow_and_no_more_and_the_daemon_ends_all_the_same(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "FOLLOWERS", 2)
    async with aclosing(stream(served, 0)) as one, aclosing(stream(served, 0)) as two:
        await submit(served)
        await take(one, 1)
        await take(two, 1)
        async with served.http.get("http://localhost/v1/events", headers={"Accept": "text/event-stream"}) as refused:
            assert (refused.status, (await refused.json(content_type=None))["reason"]) == (429, "too_many_follow")
        status, body = await served.call("GET", "/v1/events?after=x")
        assert (status, body["reason"]) == (422, "bad_input")


@pytest.mark.slow
async def test_who_has_hung_up_makes_room_before_the_next_sign_of_life(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "FOLLOWERS", 1)
    monkeypatch.setattr(event_feed, "KEEP_ALIVE_S", 3600.0)
    monkeypatch.setattr(event_feed, "LOOK_EVERY_S", 0.02)
    await submit(served)
    wanted = {"Accept": "text/event-stream"}
    for _ in range(3):
        while True:
            async with served.http.get("http://localhost/v1/events", headers=wanted) as answer:
                if answer.status == 200:
                    while not (await answer.content.readline()).startswith(b"data:"):
                        pass
                    await asyncio.sleep(0.1)  # it has nothing more to say, and waits; if not yet, all the better
                    answer.close()
                    break


@pytest.mark.slow
async def test_a_hundred_follow_at_once(served: Served) -> None:
    connector = aiohttp.UnixConnector(str(served.daemon.settings.socket_path), limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        many = Served(served.daemon, http)
        logins = [await a_token(served, name, sees_all=True) for name in ("one", "two")]  # two: room is by owner
        streams = [stream(many, 0, **login) for login in logins for _ in range(50)]
        await submit(served)
        firsts = await asyncio.gather(*(take(each, 1) for each in streams))
        assert len({seq for ((seq, _, _),) in firsts}) == 1
        newest = (await page(served, "after=0"))["after"]
        job = await submit(served)

        async def next_of(each: AsyncIterator[tuple[int, str, Any]]) -> str:
            while True:
                ((seq, _, event),) = await take(each, 1)
                if seq > newest:
                    return str(event["job_id"])

        assert set(await asyncio.gather(*(next_of(each) for each in streams))) == {job}
        for each in streams:
            await each.aclose()
