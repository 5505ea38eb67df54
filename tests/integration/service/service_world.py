"""A daemon with everything joined, and calls to its control socket."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.client.json_client import JsonClient
from autopilot.clock import SystemClock
from autopilot.config.daemon_address import DaemonAddress
from autopilot.config.http import HttpSettings
from autopilot.config.settings import ApiSettings, BlobsSettings, ProviderSettings, Settings
from autopilot.service.wiring import Daemon, daemon
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.acceptance.stage import SPEED, ForkedTheatre
from tests.api_answers import check_answer
from tests.integration.service.patient import be_patient
from tests.patience import PATIENCE_S
from tests.processes import ForkedProcess

LONGEST_MARKET_TIMEOUT_S = 300
"""What the settings allow at most."""
CLOSED_ADDRESS = "127.0.0.1:9"
WITHOUT_LISTENER: dict[str, Any] = {"AUTOPILOT_BLOBS__OWN_LISTENER": "false", "AUTOPILOT_BLOBS__LISTEN": CLOSED_ADDRESS}
"""For a daemon that no machine has to reach: its listener takes longer to start than itself."""

BELOW_ALL = '[spot]\npolicy = "spot"\nmax_price = "$0.05"\n'
"""Of a job file: nothing is so cheap, and no tick waits for a machine."""

_numbers = count(1)


@dataclass
class Served:
    daemon: Daemon
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        async with self.http.request(method, f"http://localhost{path}", data=data) as answer:
            check_answer(method, path, answer.status, await answer.read(), answer.content_type)
            return answer.status, await answer.json(content_type=None)


def own_name(what: str = "own") -> str:
    """A name that no other test has used, and that is no part of another."""
    return f"{what}-{next(_numbers):04}"


@asynccontextmanager
async def a_served(**more: Any) -> AsyncIterator[Served]:
    """A daemon after its first tick, on a market of its own. ``more``: settings besides its own.

    Its listener is said to run elsewhere: nothing here comes by the network, and its start takes longer than all
    the rest.
    """
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        config = SandboxConfig(state_dir=root / "market", real_processes=False, enforce_rate_limits=False)
        async with running_sandbox(config, SystemClock()) as sandbox:
            settings = Settings(
                state_dir=root / "state",
                api=ApiSettings(socket=root / "run" / "s"),
                blobs=BlobsSettings(own_listener=False, listen=CLOSED_ADDRESS),
                http=HttpSettings(listen=CLOSED_ADDRESS),
                providers={"vastai": a_market(sandbox.url, a_key(root))},
                **more,
            )
            async with daemon(settings) as joined:
                await joined.engine.tick()
                connector = aiohttp.UnixConnector(str(settings.socket_path))
                no_limit = aiohttp.ClientTimeout(total=None)
                async with aiohttp.ClientSession(connector=connector, timeout=no_limit) as http:
                    yield Served(joined, http)


def a_market(url: str, key: Path) -> ProviderSettings:
    """The sandbox's vast.ai, however late it answers."""
    settings: dict[str, Any] = {"base_url": url, "api_key_file": key, "timeout_s": LONGEST_MARKET_TIMEOUT_S}
    return ProviderSettings(**settings)


def a_key(directory: Path) -> Path:
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text("sandbox-key")
    return key


class PatientTheatre(ForkedTheatre):
    """One whose daemon has no limits that a loaded machine could run into."""

    @staticmethod
    def start_process(module: str, words: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedProcess:
        module = "tests.integration.service.patient" if module == "autopilot.cli.main" else module
        return ForkedProcess(module, words, environment, log)


@contextmanager
def a_patient_theatre(settings: Mapping[str, str] | None = None, speed: float = SPEED) -> Iterator[Theatre]:
    """As ``a_theatre`` of the acceptance tests. It waits for its processes as long as they live."""
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    own = {"AUTOPILOT_PROVIDERS__VASTAI__TIMEOUT_S": str(LONGEST_MARKET_TIMEOUT_S)}
    theatre = PatientTheatre(root, seed=1, speed=speed, settings=own | dict(settings or {}))
    theatre.client = JsonClient(DaemonAddress(root / "daemon" / "s"), timeout_s=PATIENCE_S)
    try:
        with pytest.MonkeyPatch.context() as patch:
            be_patient(patch.setattr)
            yield theatre
    finally:
        theatre.stop()
        shutil.rmtree(root, ignore_errors=True)
