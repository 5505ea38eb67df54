"""A daemon for each test, on a market of its own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import structlog

from autopilot.clock import SystemClock
from autopilot.config.settings import ApiSettings, ProviderSettings, Settings
from autopilot.lab.sandbox.server import SandboxConfig, running_sandbox
from autopilot.service.wiring import daemon
from tests.integration.service.service_world import Served, a_key


@pytest.fixture(autouse=True)
def fresh_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was used before keeps the settings that it had then, and its lines go past the test."""
    for module in ("app", "problems"):
        monkeypatch.setattr(f"autopilot.api.{module}.log", structlog.get_logger())


@pytest.fixture
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    """With ``@pytest.mark.parametrize("served", [{…}], indirect=True)``: settings beyond those of a test's daemon."""
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        key = a_key(root)
        config = SandboxConfig(state_dir=root / "market", real_processes=False)
        async with running_sandbox(config, SystemClock()) as sandbox:
            settings = Settings(
                state_dir=root / "state",
                api=ApiSettings(socket=root / "run" / "s"),
                providers={"vastai": ProviderSettings(base_url=sandbox.url, api_key_file=key)},
                **getattr(request, "param", {}),
            )
            async with daemon(settings) as joined:
                await joined.engine.tick()
                connector = aiohttp.UnixConnector(str(settings.socket_path))
                async with aiohttp.ClientSession(connector=connector) as http:
                    yield Served(joined, http)
