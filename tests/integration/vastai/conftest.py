from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.clock import ScaledClock
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.integration.vastai.vastai_bench import SPEED, Bench


@pytest.fixture
def sandbox_options() -> dict[str, Any]:
    """Overridden where a test needs another market."""
    return {}


@pytest.fixture
async def bench(tmp_path: Path, sandbox_options: dict[str, Any]) -> AsyncIterator[Bench]:
    clock = ScaledClock(datetime.now(UTC), SPEED)
    config = SandboxConfig(state_dir=tmp_path / "sandbox", real_processes=False, **sandbox_options)
    async with running_sandbox(config, clock) as sandbox, aiohttp.ClientSession() as http:
        made = Bench(sandbox, clock, http)
        yield made
        await made.provider.close()
