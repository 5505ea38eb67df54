"""A daemon on paper decides, bids, pauses, goes on and bills as in earnest, and the real market sees only reads."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.clock import ScaledClock
from autopilot.config.settings import (
    ApiSettings,
    LedgerSettings,
    MarketClock,
    PaperMarketSettings,
    ProviderSettings,
    Settings,
)
from autopilot.domain.errors import UserError
from autopilot.service.certificates import certify_rules
from autopilot.service.main import serve
from autopilot.service.wiring import Daemon, daemon
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.patience import PATIENCE_S, eventually

SPEED = 120.0
"""A tick of 15 market seconds is an eighth of a second."""
# The work takes 10 real seconds: a slow machine that restarts the daemon must not find the job done before the outbid.
JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[work]
estimate = "20m"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "1m"
"""


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    config = SandboxConfig(state_dir=tmp_path / "market", real_processes=False)
    async with running_sandbox(config, ScaledClock(datetime.now(UTC), SPEED)) as made:
        yield made


def settings_for(tmp_path: Path, base_url: str, speed: float = SPEED) -> Settings:
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_text("sandbox-key")
    return Settings(
        state_dir=tmp_path / "daemon",
        api=ApiSettings(socket=tmp_path / "autopilot.sock"),
        clock=MarketClock(speed=speed),
        paper=PaperMarketSettings(set_up=timedelta(seconds=60)),
        ledger=LedgerSettings(settle_after=timedelta(seconds=60)),
        providers={"vastai": ProviderSettings(base_url=base_url, api_key_file=key_file)},
    )


async def ask(settings: Settings, method: str, path: str, **wish: Any) -> Any:
    """The control API, as the command line reaches it."""
    connector = aiohttp.UnixConnector(str(settings.socket_path))
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.request(method, f"http://daemon/v1/{path}", json=wish or None) as response,
    ):
        answer = await response.json()
        assert response.status < 300, answer
        return answer


async def first_status(settings: Settings) -> Any:
    """As soon as the daemon answers: its socket is in the directory a moment before it listens."""

    async def answer() -> Any:
        with suppress(aiohttp.ClientConnectorError):
            return await ask(settings, "GET", "status")
        return None

    return await eventually(answer, "an answer of the daemon", every_s=0.05)


async def tick_until(running: Daemon, holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await running.engine.tick()
            await running.clock.sleep(15)


@pytest.mark.slow
async def test_a_job_runs_to_its_end_on_paper(sandbox: Sandbox, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, sandbox.url).on_paper()
    seen: set[str] = set()

    async def job() -> Any:
        shown = await ask(settings, "GET", "jobs/train")
        seen.update(event["name"] for event in shown["events"])
        return shown

    async def has_checkpoint() -> bool:
        state = (await job())["job"]
        return state["status"] == "running" and state["checkpoint"] is not None

    async def has_paused() -> bool:
        await job()
        return "lease.paused" in seen or (await job())["job"]["status"] == "paused"

    async def is_over() -> bool:
        shown = await job()
        done = shown["job"]["status"] == "succeeded" and all(lease["state"] == "gone" for lease in shown["leases"])
        return done and (await ask(settings, "GET", "status"))["unbilled_leases"] == 0

    async with daemon(settings) as running:
        await ask(settings, "POST", "jobs", toml=JOB, source="job.toml", dry_run=False)
        await tick_until(running, has_checkpoint)
        first = (await job())["job"]["main"]
        assert first["provider"] == "paper-vastai"

    async with daemon(settings) as running:
        (found,) = await running.engine.watches["paper-vastai"].provider.instances()
        assert found.instance_id == first["instance_id"]
        bid = Decimal(first["bid"])
        sandbox.market.set_floor(int(first["machine_id"]), bid + Decimal("0.005"))
        await tick_until(running, has_paused)
        await tick_until(running, is_over)

        today = running.clock.now().date()
        provider = running.engine.watches["paper-vastai"].provider
        charges = await provider.charges(today - timedelta(days=2), today)
        spend = await ask(settings, "GET", "spend?by=provider")
        assert [row["key"] for row in spend["rows"]] == ["paper-vastai"]
        assert Decimal(spend["total_row"]["posted"]) == sum(charge.amount for charge in charges) > 0
        assert (await ask(settings, "GET", "jobs/train/why"))["decisions"]
        assert await provider.instances() == ()

    assert {family for family, count in sandbox._api.requests.items() if count} == {"search", "user", "names"}
    assert not sandbox.market.instances
    assert (tmp_path / "daemon/paper/paper.db").exists()
    assert not (tmp_path / "daemon/ledger.db").exists()


@pytest.mark.slow
async def test_serve_paper_runs_beside_a_daemon_in_earnest(sandbox: Sandbox, tmp_path: Path) -> None:
    paper = settings_for(tmp_path, sandbox.url).on_paper()
    environment = {
        "PATH": os.environ["PATH"],
        "CONFIGURATION_DIRECTORY": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "AUTOPILOT_STATE_DIR": str(tmp_path / "daemon"),
        "AUTOPILOT_API__SOCKET": str(tmp_path / "autopilot.sock"),
        "AUTOPILOT_CLOCK__SPEED": str(SPEED),
        "AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": sandbox.url,
        "AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE": str(tmp_path / "key"),
    }
    standing_in = tmp_path / "autopilot.sock"
    standing_in.write_text("the socket of a daemon in earnest")
    serving = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "autopilot.cli.main", "serve", "--paper", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        status = await first_status(paper)
    finally:
        serving.terminate()
        _, said = await serving.communicate()
    assert [market["name"] for market in status["providers"]] == ["paper-vastai"]
    assert serving.returncode == 0, said
    assert standing_in.read_text() == "the socket of a daemon in earnest"


@pytest.mark.slow
async def test_real_markets_need_no_certificate_and_no_public_address_on_paper(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, "https://console.vast.ai", speed=1)
    assert certify_rules(settings).needed_on == {"vastai"}
    # Nothing is sent before the first tick.
    async with daemon(settings.on_paper()) as running:
        assert list(running.engine.watches) == ["paper-vastai"]
        assert running.engine.config.certify.needed_on == frozenset()


@pytest.fixture
def kept_umask() -> Iterator[None]:
    """A daemon closes its files to others; the tests after it, in this process, need theirs open."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.mark.usefixtures("kept_umask")
def test_in_earnest_they_need_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME", "AUTOPILOT_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_text("k")
    config = tmp_path / "own.toml"
    config.write_text(f"[providers.runpod]\napi_key_file = '{key_file}'\n")
    with pytest.raises(UserError, match="public_url"):
        serve(config, accept_unproven=True)


def test_a_paper_run_is_kept_apart_from_a_real_one(tmp_path: Path) -> None:
    real = settings_for(tmp_path, "https://console.vast.ai", speed=1)
    real = real.model_copy(update={"ledger": real.ledger.model_copy(update={"url": "sqlite+aiosqlite:////x.db"})})
    paper = real.on_paper()
    assert paper.is_on_paper
    assert not real.is_on_paper
    assert paper.only("paper-vastai").is_on_paper
    assert paper.ledger_url == f"sqlite+aiosqlite:///{tmp_path}/daemon/paper/paper.db"
    assert paper.socket_path == tmp_path / "paper.sock"
    assert paper.state_dir != real.state_dir
    assert paper.secret_values() == real.secret_values() == ("sandbox-key",)
    assert paper.limits == real.limits
