"""The markets' answers tell the time: read through each vendor's own client, over HTTP, and compared with our clock."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from autopilot.ports.provider import Plugin
from autopilot.providers import mithril, runpod, vastai
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.contract import mithril_harness, runpod_harness, vastai_harness
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

MARKETS: dict[str, tuple[Plugin, str]] = {
    "vastai": (vastai.plugin, vastai_harness.KEY),
    "runpod": (runpod.plugin, runpod_harness.KEY),
    "mithril": (mithril.plugin, mithril_harness.KEY),
}


@pytest.mark.parametrize("name", MARKETS)
async def test_the_time_of_a_markets_answers_is_compared_with_ours(tmp_path: Path, name: str) -> None:
    clock, (plugin, key) = QuickClock(), MARKETS[name]
    async with running_sandbox(SandboxConfig(state_dir=tmp_path / "sandbox", real_processes=False), clock) as sandbox:
        settings: dict[str, Any] = {"base_url": sandbox.url, "api_key": key, "timeout_s": PATIENCE_S}
        provider = plugin.connect(settings, clock)
        try:
            assert provider.reported_time() is None, "nobody was asked"
            for ahead in (timedelta(0), timedelta(hours=2), timedelta(hours=-2)):
                sandbox.time_ahead = ahead
                await provider.instances()
                told = provider.reported_time()
                assert told is not None
                assert abs(told.ahead - ahead) <= timedelta(seconds=1)
        finally:
            await provider.close()
