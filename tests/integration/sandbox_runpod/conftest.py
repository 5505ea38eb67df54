from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.clock import ManualClock
from autopilot.ports.clock import Clock
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.integration.sandbox_runpod.runpod_desk import START, Desk


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
                "runpod_billing_lag_s": 0.0,
            } | options
            sandbox = await stack.enter_async_context(running_sandbox(SandboxConfig(**chosen), own_clock or clock))
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return Desk(sandbox, http)

        yield build


@pytest.fixture
async def desk(open_desk: Callable[..., Awaitable[Desk]]) -> Desk:
    return await open_desk()
