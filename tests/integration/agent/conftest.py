"""A store with its listener, a market's self-destroy API, and machines that are killed at the end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autopilot.agent.artifact import agent_key, agent_source
from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from tests.integration.agent.agent_world import TRAINER, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    calls: list[Any] = []

    async def act(request: web.Request) -> web.Response:
        calls.append((request.method, request.path, request.headers.get("Authorization"), await request.json()))
        return web.json_response({"success": True})

    market = web.Application()
    market.router.add_route("*", "/api/v0/instances/{id}/", act)
    hours: list[float] = []
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "", unix_time=lambda: time.time() + 3600 * sum(hours))
    runners = []
    urls = []
    for app in (blob_listener(store), market):
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls.append("http://{}:{}".format(*runner.addresses[0][:2]))
        runners.append(runner)
    store.base_url = urls[0]
    await store.put(agent_key(), agent_source())
    world = World(tmp_path, store, urls[1], calls)
    world.hours_passed = hours
    try:
        yield world
    finally:
        await world.close()
        for runner in runners:
            await runner.cleanup()


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """The digest of the model after so many steps in one go."""
    known: dict[int, str] = {}

    def digest(steps: int) -> str:
        if steps not in known:
            path = tmp_path_factory.mktemp("whole") / "model.json"
            command = [sys.executable, str(TRAINER), "--steps", str(steps), "--checkpoint", str(path)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            known[steps] = out.rsplit("model sha256 ", 1)[1].strip()
        return known[steps]

    return digest
