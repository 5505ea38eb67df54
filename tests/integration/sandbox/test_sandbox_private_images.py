"""Private images on both sandboxes, as the vendors' own SDKs meet them: nothing is pulled without the right login."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from vastai import VastAI

from autopilot_lab.sandbox.private_images import Login, PrivateImage, refusal
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.builders import START
from tests.contract.harness import QuickClock

IMAGE = "ghcr.io/me/train:1"
PRIVATE = PrivateImage("ghcr.io/me/train", "me", "right")
KEYS = {"Authorization": "Bearer runpod-sandbox-key", "User-Agent": "a-test"}


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock(START)


@pytest.fixture
async def sandbox(tmp_path: Path, clock: QuickClock) -> AsyncIterator[Sandbox]:
    config = SandboxConfig(
        state_dir=tmp_path, real_processes=False, enforce_rate_limits=False, private_images=(PRIVATE,)
    )
    async with running_sandbox(config, clock) as running:
        yield running


@pytest.mark.parametrize(
    ("image", "login", "words"),
    [
        ("ghcr.io/me/other:1", None, None),
        (IMAGE, Login("me", "right", "ghcr.io"), None),
        (IMAGE, Login("me", "right"), None),
        (IMAGE, None, "unauthorized"),
        (IMAGE, Login("me", "right", "docker.io"), "unauthorized"),
        (IMAGE, Login("me", "wrong", "ghcr.io"), "denied"),
        (IMAGE, Login("you", "right", "ghcr.io"), "denied"),
    ],
)
def test_a_registry_gives_its_image_to_the_right_login_alone(
    image: str, login: Login | None, words: str | None
) -> None:
    said = refusal((PRIVATE,), image, login)
    assert (said is None) if words is None else words in (said or "")


@pytest.mark.parametrize(
    ("login", "status", "words"),
    [
        ("-u me -p right ghcr.io", "running", "success"),
        ("-u me -p wrong ghcr.io", "created", "denied"),
        (None, "created", "unauthorized"),
    ],
)
async def test_vastai_takes_the_login_in_its_create(
    sandbox: Sandbox, clock: QuickClock, login: str | None, status: str, words: str
) -> None:
    vast = await asyncio.to_thread(VastAI, api_key="sandbox-key", server_url=sandbox.url, raw=True)
    offers: Any = await asyncio.to_thread(vast.search_offers, query="gpu_name=RTX_4090 num_gpus=1", type="bid")
    asked = {"image": IMAGE, "disk": 20, "price": 1.0, "login": login, "env": {}}
    made: Any = await asyncio.to_thread(lambda: vast.create_instance(id=offers[0]["id"], **asked))
    clock.advance(120)
    row: Any = await asyncio.to_thread(vast.show_instance, id=made["new_contract"])
    assert (row["actual_status"], words in row["status_msg"]) == (status, True)


async def test_runpod_keeps_logins_as_objects(sandbox: Sandbox, clock: QuickClock) -> None:
    async with aiohttp.ClientSession(headers=KEYS) as http:

        async def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            async with http.request(method, sandbox.url + path, json=body) as answer:
                return answer.status, await answer.json(content_type=None) if answer.content_length != 0 else None

        async def rent(**more: str) -> str:
            body = {"name": "p", "image": IMAGE, "gpu": {"id": "NVIDIA GeForce RTX 4090"}, **more}
            status, pod = await call("POST", "/v2/pods", body)
            assert status == 201, pod
            return str(pod["id"])

        async def outcome(pod_id: str) -> tuple[str, str]:
            clock.advance(60)
            _, pod = await call("GET", f"/v2/pods/{pod_id}")
            _, log = await call("GET", f"/hapi/v1/pod/{pod_id}/logs?type=system")
            return pod["status"], "\n".join(log["system"])

        status, right = await call("POST", "/v2/registries", {"name": "a", "username": "me", "password": "right"})
        assert (status, set(right)) == (201, {"id", "name"}), "what was written is never shown"
        _, wrong = await call("POST", "/v2/registries", {"name": "b", "username": "me", "password": "wrong"})
        taken, _ = await call("POST", "/v2/registries", {"name": "a", "username": "me", "password": "right"})
        assert taken == 400
        assert (await call("GET", "/v2/registries"))[1] == {"registries": [right, wrong]}
        assert (await outcome(await rent(registry=right["id"])))[0] == "RUNNING"
        for pod_id, words in ((await rent(registry=wrong["id"]), "denied"), (await rent(), "unauthorized")):
            status_word, log = await outcome(pod_id)
            assert status_word == "EXITED"
            assert f"{words}" in log
        assert (await call("DELETE", f"/v2/registries/{wrong['id']}"))[0] == 204
        assert (await call("DELETE", f"/v2/registries/{wrong['id']}"))[0] == 404
        nowhere = {"name": "p", "image": IMAGE, "gpu": {"id": "NVIDIA GeForce RTX 4090"}, "registry": wrong["id"]}
        assert (await call("POST", "/v2/pods", nowhere))[0] == 400


async def test_the_sdk_of_runpod_writes_and_deletes_logins(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", sandbox.url)

    def by_sdk() -> tuple[Any, Any]:
        import runpod

        runpod.api_key = "runpod-sandbox-key"
        made = runpod.create_container_registry_auth(name="a", username="me", password="right")
        return made, runpod.delete_container_registry_auth(made["id"])

    made, deleted = await asyncio.to_thread(by_sdk)
    assert made["name"] == "a"
    assert deleted is True
    assert not sandbox.runpod.registries.held
    assert os.environ["RUNPOD_API_BASE_URL"] == sandbox.url
