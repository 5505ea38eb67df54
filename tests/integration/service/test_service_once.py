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
from tests.integration.service.service_world import Served

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


async def open_jobs(served: Served) -> list[str]:
    return [job["id"] for job in (await served.call("GET", "/v1/jobs"))[1]["jobs"]]


async def until(served: Served, path: str, holds: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds((await served.call("GET", path))[1]):
            await served.daemon.engine.tick()


async def test_a_submit_sent_again_with_its_key_makes_no_second_job(served: Served) -> None:
    first = await send(served, "POST", "/v1/jobs", a_submit(), KEY)
    again = await send(served, "POST", "/v1/jobs", a_submit(), KEY)
    assert (first[0], first[2]) == (201, False)
    assert again == (201, first[1], True)
    assert await open_jobs(served) == [first[1]["job"]["id"]]


async def test_two_at_once_with_one_key_make_one_job(served: Served) -> None:
    answers = await asyncio.gather(*(send(served, "POST", "/v1/jobs", a_submit(), KEY) for _ in range(8)))
    assert {(status, body["job"]["id"]) for status, body, _ in answers} == {(201, (await open_jobs(served))[0])}
    assert sorted(replayed for *_, replayed in answers) == [False] + [True] * 7


async def test_a_key_with_another_request_is_a_conflict(served: Served) -> None:
    await send(served, "POST", "/v1/jobs", a_submit(), KEY)
    status, body, _ = await send(served, "POST", "/v1/jobs", a_submit("other"), KEY)
    assert (status, "another request" in body["detail"]) == (409, True)
    assert len(await open_jobs(served)) == 1


@pytest.mark.parametrize("key", ["k" * 256, "ä"])
async def test_a_key_that_is_none_is_refused(served: Served, key: str) -> None:
    assert (await send(served, "POST", "/v1/jobs", a_submit(), {"Idempotency-Key": key}))[0] == 422
    assert await open_jobs(served) == []


async def test_what_failed_is_not_kept(served: Served) -> None:
    assert (await send(served, "POST", "/v1/jobs", {"toml": "=", "source": "x"}, KEY))[0] == 422
    assert (await send(served, "POST", "/v1/jobs", a_submit(), KEY))[0] == 201


async def test_a_second_job_of_the_same_is_meant_or_refused(served: Served) -> None:
    _, first, _ = await send(served, "POST", "/v1/jobs", a_submit())
    turned = a_submit()["toml"].replace('name = "train"\nimage', '# twice\nname   = "train"\nimage')
    status, body, _ = await send(served, "POST", "/v1/jobs", {"toml": turned, "source": "job.toml"})
    assert (status, body["reason"], body["job"]) == (409, "same_job_open", first["job"]["id"])
    assert "--again" in body["hint"]
    assert (await send(served, "POST", "/v1/jobs", a_submit(dry_run=True)))[0] == 200
    assert (await send(served, "POST", "/v1/jobs", a_submit("other")))[0] == 201
    assert (await send(served, "POST", "/v1/jobs", a_submit(again=True)))[0] == 201
    assert len(await open_jobs(served)) == 3


async def test_a_job_that_is_over_is_no_hindrance(served: Served) -> None:
    _, first, _ = await send(served, "POST", "/v1/jobs", a_submit())
    await served.call("POST", f"/v1/jobs/{first['job']['id']}/cancel")

    await until(served, "/v1/jobs", lambda body: body["jobs"] == [])
    assert (await send(served, "POST", "/v1/jobs", a_submit()))[0] == 201


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


async def test_whoever_hangs_up_before_the_commit_leaves_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller goes while its submit is being written: the transaction is rolled back."""
    arrived, go_on = asyncio.Event(), asyncio.Event()
    keep: Callable[..., Any] = Once.keep

    async def wait_first(self: Once, *rest: Any) -> None:
        arrived.set()
        await go_on.wait()
        await keep(self, *rest)

    monkeypatch.setattr(Once, "keep", wait_first)
    caller = asyncio.create_task(send(served, "POST", "/v1/jobs", a_submit(), KEY))
    await asyncio.wait_for(arrived.wait(), 10)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await asyncio.sleep(0.05)
    go_on.set()
    monkeypatch.setattr(Once, "keep", keep)
    assert (await send(served, "POST", "/v1/jobs", a_submit(), KEY))[0] == 201
    assert len(await open_jobs(served)) == 1


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


async def test_a_set_is_accepted_once_and_waits_in_a_line(served: Served) -> None:
    status, first, _ = await send(served, "POST", "/v1/sets", a_set("prepare", "train", "report"), KEY)
    assert status == 201
    assert [made["job"]["reason"] for made in first["jobs"]] == ["submitted", "waiting_for_jobs", "waiting_for_jobs"]
    assert await send(served, "POST", "/v1/sets", a_set("prepare", "train", "report"), KEY) == (201, first, True)
    ids = [made["job"]["id"] for made in first["jobs"]]
    assert sorted(await open_jobs(served)) == sorted(ids)
    _, listed = await served.call("GET", "/v1/jobs")
    train = next(job for job in listed["jobs"] if job["name"] == "train")
    assert [(each["job"], each["name"], each["on"]) for each in train["after"]] == [(ids[0], "prepare", "ok")]
    assert [note["topic"] for note in train["waiting"]["notes"]] == ["after"]


async def test_a_set_with_one_bad_file_leaves_nothing(served: Served) -> None:
    planned = await send(served, "POST", "/v1/sets", a_set("prepare", "train", dry_run=True))
    assert (planned[0], [made["job"] for made in planned[1]["jobs"]]) == (200, [None, None])
    assert any("waits for another job" in note for note in planned[1]["jobs"][1]["plan"]["notes"])
    broken = a_set("prepare", "train")
    broken["jobs"][1]["toml"] = broken["jobs"][1]["toml"].replace("$3.00", "$0.01")
    status, body, _ = await send(served, "POST", "/v1/sets", broken)
    assert (status, body["detail"].startswith("train.toml: ")) == (402, True), body
    await send(served, "POST", "/v1/jobs", a_submit("prepare"))
    status, body, _ = await send(served, "POST", "/v1/sets", a_set("prepare", "train"))
    assert (status, body["reason"]) == (409, "same_job_open")
    assert len(await open_jobs(served)) == 1
