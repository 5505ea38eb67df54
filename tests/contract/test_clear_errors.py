"""What a user can get wrong about a market is one clear error each: which it is, and the way out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from autopilot.clock import ManualClock
from autopilot.config.settings import ProviderSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.service import doctor
from autopilot.service.wiring import connect_markets
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.contract.harness import QuickClock

MARKETS = ("vastai", "runpod")
EXTRAS = {"vastai": "vast", "runpod": "runpod"}


def key_file(tmp_path: Path, key: str) -> Path:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(key)
    return path


def test_an_unknown_market_names_those_that_there_are() -> None:
    settings = Settings(providers={"vastia": ProviderSettings()})
    with pytest.raises(UserError, match=r"'vastia'.*known markets:.*vastai") as raised:
        connect_markets(settings, ManualClock())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("on_paper", [False, True])
@pytest.mark.parametrize("market", MARKETS)
def test_a_missing_key_says_how_to_store_one(market: str, on_paper: bool, tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path, providers={market: ProviderSettings()})
    with pytest.raises(UserError, match=r"no API key.*autopilot init"):
        connect_markets(settings.on_paper() if on_paper else settings, ManualClock())


@pytest.mark.slow
@pytest.mark.parametrize("market", MARKETS)
def test_a_missing_sdk_names_the_extra_that_brings_it(market: str) -> None:
    program = f"""
import sys
sys.modules[{market!r}] = None  # what an import of a missing package meets
from autopilot.domain.errors import UserError
from autopilot.clock import SystemClock
from autopilot.providers import registry
try:
    registry.connect({market!r}, {{"api_key": "k"}}, SystemClock())
except UserError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert f"pip install --no-index --find-links dist 'gpu-autopilot[{EXTRAS[market]}]'" in said
    assert len(said.splitlines()) == 1


async def test_a_key_without_rights_is_named_by_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIGURATION_DIRECTORY", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    config = tmp_path / "own.toml"
    async with running_sandbox(SandboxConfig(state_dir=tmp_path / "market"), QuickClock()) as sandbox:
        market = f"base_url = '{sandbox.url}'\napi_key_file = '{key_file(tmp_path, 'wrong-key')}'\n"
        config.write_text(f"state_dir = '{tmp_path / 'state'}'\n[providers.vastai]\n{market}")
        checks = {check.name: check for check in await asyncio.to_thread(doctor.run, config)}
    assert checks["vastai"].ok is False
    assert "key" in checks["vastai"].detail
    assert "wrong-key" not in checks["vastai"].detail
    assert checks["vastai"].hint == f"put a valid key into {tmp_path / 'key'}: the daemon reads it at its next look"
