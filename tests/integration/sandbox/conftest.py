import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from vastai import VastAI

from autopilot.clock import ManualClock
from autopilot.ports.clock import Clock
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.patience import eventually

START = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)


class Desk:
    """A sandbox, the real SDK on it (one try, in a thread, as its HTTP is synchronous) and the control API."""

    def __init__(self, sandbox: Sandbox, http: aiohttp.ClientSession) -> None:
        self.sandbox = sandbox
        self.url = sandbox.url
        self.http = http
        self.vast = self.client(sandbox.config.api_keys[0])

    def client(self, key: str | None) -> Any:
        client = VastAI(key, server_url=self.url, retry=1, quiet=True)
        client.client.timeout = 5
        return client

    async def sdk(self, method: str, *args: object, **kwargs: object) -> Any:
        return await asyncio.to_thread(getattr(self.vast, method), *args, **kwargs)

    async def emu(self, method: str, name: str, **body: object) -> Any:
        async with self.http.request(method, f"{self.url}/_emu/{name}", json=body) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def raw(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Status and body (parsed if it is JSON), redirects not followed, with the account's key."""
        headers = options.pop("headers", {"Authorization": f"Bearer {self.sandbox.config.api_keys[0]}"})
        url = f"{self.url}{path}"
        async with self.http.request(method, url, headers=headers, allow_redirects=False, **options) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def advance(self, seconds: float) -> None:
        await self.emu("POST", "advance", seconds=seconds)

    async def offer(self, kind: str = "bid", **query: object) -> dict[str, Any]:
        wish = {"num_gpus": {"eq": 1}, "gpu_name": {"eq": "RTX 4090"}, "verified": {"eq": True}} | query
        offers = await self.sdk("search_offers", query=wish, type=kind, order="min_bid", limit=5, storage=10)
        return dict(offers[0])

    async def rent(self, price: float | None = 0.5, **order: object) -> int:
        """A new instance on the cheapest RTX 4090; it begins to run 40 s later."""
        offer = await self.offer("on-demand" if price is None else "bid")
        order = {"image": "ubuntu:24.04", "disk": 10, "label": "test"} | order
        reply = await self.sdk("create_instance", offer["id"], price=price, **order)
        return int(reply["new_contract"])

    async def row(self, instance_id: int) -> dict[str, Any]:
        return dict((await self.raw("GET", f"/api/v0/instances/{instance_id}/?owner=me"))[1]["instances"])

    async def eventually(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        await eventually(condition)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def open_desk(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Callable[..., Awaitable[Desk]]]:
    """Opens a sandbox; by default without rate limits and processes, on a clock that the test moves."""
    async with AsyncExitStack() as stack:

        async def build(own_clock: Clock | None = None, **options: Any) -> Desk:
            chosen: dict[str, Any] = {
                "state_dir": tmp_path / "sandbox",
                "enforce_rate_limits": False,
                "real_processes": False,
            } | options
            sandbox = await stack.enter_async_context(running_sandbox(SandboxConfig(**chosen), own_clock or clock))
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return Desk(sandbox, http)

        yield build


@pytest.fixture
async def desk(open_desk: Callable[..., Awaitable[Desk]]) -> Desk:
    return await open_desk()
