"""Requests that act once: a submit sent again with its key, a second job of the same, a caller who hangs up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from autopilot.api.once import Once
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served, own_name

KEY = {"Idempotency-Key": "k1"}


async def send(
    served: Served, method: str, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any, bool]:
    """Status, body, and whether it was an answer that had been given before."""
    url, data = f"http://localhost{path}", json.dumps(body).encode()
    async with served.http.request(method, url, data=data, headers=headers) as answer:
        return answer.status, await answer.json(), "Idempotency-Replayed" in answer.headers


def a_submit(name: str = "train", **more: Any) -> dict[str, Any]:
    return {"toml": job_text(300, name), "source": "job.toml", **more}


def a_key() -> dict[str, str]:
    return {"Idempotency-Key": own_name("k")}


async def open_jobs(served: Served, *names: str) -> list[str]:
    """Of those names, or all."""
    jobs = (await served.call("GET", "/v1/jobs"))[1]["jobs"]
    return [job["id"] for job in jobs if not names or job["name"] in names]


async def until(served: Served, path: str, holds: Callable[[Any], bool]) -> None:
    while not holds((await served.call("GET", path))[1]):
        await served.daemon.engine.tick()


async def test_a_submit_sent_again_with_its_key_makes_no_second_job(shared: Served) -> None:
    wish, key = a_submit(own_name()), a_key()
    first = await send(shared, "POST", "/v1/jobs", wish, key)
    again = await send(shared, "POST", "/v1/jobs", wish, key)
    assert (first[0], first[2]) == (201, False)
    assert again == (201, first[1], True)
    assert await open_jobs(shared, first[1]["job"]["name"]) == [first[1]["job"]["id"]]


async def test_two_at_once_with_one_key_make_one_job(shared: Served) -> None:
    name, key = own_name(), a_key()
    answers = await asyncio.gather(*(send(shared, "POST", "/v1/jobs", a_submit(name), key) for _ in range(8)))
    (made,) = await open_jobs(shared, name)
    assert {(status, body["job"]["id"]) for status, body, _ in answers} == {(201, made)}
    assert sorted(replayed for *_, replayed in answers) == [False] + [True] * 7


async def test_a_key_with_another_request_is_a_conflict(shared: Served) -> None:
    name, other, key = own_name(), own_name("other"), a_key()
    await send(shared, "POST", "/v1/jobs", a_submit(name), key)
    status, body, _ = await send(shared, "POST", "/v1/jobs", a_submit(other), key)
    assert (status, "another request" in body["detail"]) == (409, True)
    assert len(await open_jobs(shared, name, other)) == 1


@pytest.mark.parametrize("key", ["k" * 256, "ä"])
async def test_a_key_that_is_none_is_refused(shared: Served, key: str) -> None:
    name = own_name()
    assert (await send(shared, "POST", "/v1/jobs", a_submit(name), {"Idempotency-Key": key}))[0] == 422
    assert await open_jobs(shared, name) == []


async def test_what_failed_is_not_kept(shared: Served) -> None:
    key = a_key()
    assert (await send(shared, "POST", "/v1/jobs", {"toml": "=", "source": "x"}, key))[0] == 422
    assert (await send(shared, "POST", "/v1/jobs", a_submit(own_name()), key))[0] == 201


async def test_a_second_job_of_the_same_is_meant_or_refused(shared: Served) -> None:
    name, other = own_name(), own_name("other")
    _, first, _ = await send(shared, "POST", "/v1/jobs", a_submit(name))
    turned = a_submit(name)["toml"].replace(f'name = "{name}"\nimage', f'# twice\nname   = "{name}"\nimage')
    status, body, _ = await send(shared, "POST", "/v1/jobs", {"toml": turned, "source": "job.toml"})
    assert (status, body["reason"], body["job"]) == (409, "same_job_open", first["job"]["id"])
    assert "--again" in body["hint"]
    assert (await send(shared, "POST", "/v1/jobs", a_submit(name, dry_run=True)))[0] == 200
    assert (await send(shared, "POST", "/v1/jobs", a_submit(other)))[0] == 201
    assert (await send(shared, "POST", "/v1/jobs", a_submit(name, again=True)))[0] == 201
    assert len(await open_jobs(shared, name, other)) == 3


async def test_a_job_that_is_over_is_no_hindrance(served: Served) -> None:
    _, first, _ = await send(served, "POST", "/v1/jobs", a_submit())
    await served.call("POST", f"/v1/jobs/{first['job']['id']}/cancel")

    await until(served, "/v1/jobs", lambda body: body["jobs"] == [])
    assert (await send(served, "POST", "/v1/jobs", a_submit()))[0] == 201


@pytest.mark.slow
async def test_change_and_resume_act_once(served: Served) -> None:
    _, made, _ = await send(served, "POST", "/v1/jobs", a_submit())
    path = f"/v1/jobs/{made['job']['id']}"
    first = await send(served, "PATCH", path, {"deadline": "6h"}, KEY)
    assert first[0] == 200, first
    later = {"deadline": "+1h"}
    second = await send(served, "PATCH", path, later, {"Idempotency-Key": "k3"})
    assert (await send(served, "PATCH", path, later, {"Idempotency-Key": "k3"})) == (200, second[1], True)
    assert (await served.call("GET", path))[1]["job"]["deadline"] == second[1]["job"]["deadline"]
    await served.call("POST", f"{path}/stop")
    await until(served, path, lambda body: body["job"]["status"] == "parked")
    first = await send(served, "POST", f"{path}/resume", {}, {"Idempotency-Key": "k2"})
    assert first[0] == 200, first
    assert (await send(served, "POST", f"{path}/resume", {}, {"Idempotency-Key": "k2"})) == (200, first[1], True)


async def test_a_hangup_before_the_commit_leaves_nothing(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller goes while its submit is being written: the transaction is rolled back."""
    name, key = own_name(), a_key()
    arrived, go_on = asyncio.Event(), asyncio.Event()
    keep: Callable[..., Any] = Once.keep

    async def wait_first(self: Once, *rest: Any) -> None:
        arrived.set()
        await go_on.wait()
        await keep(self, *rest)

    monkeypatch.setattr(Once, "keep", wait_first)
    caller = asyncio.create_task(send(shared, "POST", "/v1/jobs", a_submit(name), key))
    await arrived.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await asyncio.sleep(0.05)
    go_on.set()
    monkeypatch.setattr(Once, "keep", keep)
    assert (await send(shared, "POST", "/v1/jobs", a_submit(name), key))[0] == 201
    assert len(await open_jobs(shared, name)) == 1


async def test_an_answer_is_kept_for_a_day(served: Served) -> None:
    await send(served, "POST", "/v1/jobs", a_submit(), KEY)
    async with served.daemon.engine._store.transaction() as uow:
        assert await uow.answers.forget(served.daemon.clock.now() - timedelta(days=1)) == 0
        assert await uow.answers.forget(served.daemon.clock.now() + timedelta(seconds=1)) == 1


def a_set(*names: str, **more: Any) -> dict[str, Any]:
    """Each waits for the one before."""
    files = [a_submit(name)["toml"] for name in names]
    files[1:] = [f'after = ["{before}"]\n{text}' for before, text in zip(names, files[1:], strict=False)]
    return {"jobs": [{"toml": text, "source": f"{name}.toml"} for name, text in zip(names, files, strict=True)]} | more


async def test_a_set_is_accepted_once_and_waits_in_a_line(shared: Served) -> None:
    names, key = [own_name(each) for each in ("prepare", "train", "report")], a_key()
    status, first, _ = await send(shared, "POST", "/v1/sets", a_set(*names), key)
    assert status == 201
    assert [made["job"]["reason"] for made in first["jobs"]] == ["submitted", "waiting_for_jobs", "waiting_for_jobs"]
    assert await send(shared, "POST", "/v1/sets", a_set(*names), key) == (201, first, True)
    ids = [made["job"]["id"] for made in first["jobs"]]
    assert sorted(await open_jobs(shared, *names)) == sorted(ids)
    _, listed = await shared.call("GET", "/v1/jobs")
    train = next(job for job in listed["jobs"] if job["name"] == names[1])
    assert [(each["job"], each["name"], each["on"]) for each in train["after"]] == [(ids[0], names[0], "ok")]
    assert [note["topic"] for note in train["waiting"]["notes"]] == ["after"]


async def test_a_set_with_one_bad_file_leaves_nothing(shared: Served) -> None:
    names = [own_name(each) for each in ("prepare", "train")]
    planned = await send(shared, "POST", "/v1/sets", a_set(*names, dry_run=True))
    assert (planned[0], [made["job"] for made in planned[1]["jobs"]]) == (200, [None, None])
    assert any("waits for another job" in note for note in planned[1]["jobs"][1]["plan"]["notes"])
    broken = a_set(*names)
    broken["jobs"][1]["toml"] = broken["jobs"][1]["toml"].replace("$3.00", "$0.01")
    status, body, _ = await send(shared, "POST", "/v1/sets", broken)
    assert (status, body["detail"].startswith(f"{names[1]}.toml: ")) == (402, True), body
    await send(shared, "POST", "/v1/jobs", a_submit(names[0]))
    status, body, _ = await send(shared, "POST", "/v1/sets", a_set(*names))
    assert (status, body["reason"]) == (409, "same_job_open")
    assert len(await open_jobs(shared, *names)) == 1
