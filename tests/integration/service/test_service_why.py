"""``autopilot why`` of a daemon on the sandbox: what it waits for is said at once, with numbers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import aiohttp
import pytest

from autopilot.cli.main import run
from autopilot.clock import SystemClock
from autopilot.config.settings import ApiSettings, ProviderSettings, Settings
from autopilot.lab.sandbox.server import SandboxConfig, running_sandbox
from autopilot.service.wiring import daemon
from tests.acceptance.stage import job_text

BELOW_ALL = job_text(300) + '[spot]\npolicy = "spot"\nmax_price = "$0.05"\n'


async def test_only_offers_above_max_price(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        key = root / "key"
        key.touch(mode=0o600)
        key.write_text("sandbox-key")
        config = SandboxConfig(state_dir=root / "market", real_processes=False)
        async with running_sandbox(config, SystemClock()) as sandbox:
            settings = Settings(
                state_dir=root / "state",
                api=ApiSettings(socket=root / "run" / "s"),
                providers={"vastai": ProviderSettings(base_url=sandbox.url, api_key_file=key)},
            )
            async with daemon(settings) as joined:
                await joined.engine.tick()
                wish = {"toml": BELOW_ALL, "source": "job.toml", "min_probability": 0}
                connector = aiohttp.UnixConnector(str(settings.socket_path))
                async with (
                    aiohttp.ClientSession(connector=connector) as http,
                    http.post("http://localhost/v1/jobs", json=wish) as answer,
                ):
                    assert answer.status == 201, await answer.text()
                await joined.engine.tick()
                monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(settings.socket_path))
                monkeypatch.setenv("COLUMNS", "200")
                codes = [await asyncio.to_thread(run, [command, "train"]) for command in ("why", "show")]
                codes.append(await asyncio.to_thread(run, ["ps"]))
    assert codes == [0, 0, 0]
    out = capsys.readouterr().out
    assert out.count("looked for 1×RTX 4090, 20 GB of disk, verified hosts, spot only: ") == 3, out
    assert out.count("above your max_price: cheapest floor $0.") == 4, out
    assert out.count("your max_price $0.05/h") == 4, out
    assert "decided yet" not in out
