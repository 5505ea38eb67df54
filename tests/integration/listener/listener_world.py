"""A daemon here, with the listener that it has started: a process of its own, which serves the API over TCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.blobs.place import MailboxPlace
from autopilot.clock import SystemClock
from autopilot.config.http import HttpSettings
from autopilot.config.settings import ApiSettings, Settings
from autopilot.service.wiring import Daemon, daemon
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.integration.service.service_world import a_key, a_market, own_name

NO_LIMIT = aiohttp.ClientTimeout(total=None)
"""A busy machine may take its time to connect, too."""


@dataclass
class Remote:
    daemon: Daemon
    place: MailboxPlace
    here: aiohttp.ClientSession
    """On the users' socket."""
    tcp: aiohttp.ClientSession

    async def token(self, name: str = "", scope: str = "submit", **others: Any) -> str:
        """Of a name of its own unless one is given."""
        body = {"name": name or own_name("ci"), "scope": scope, **others}
        async with self.here.post("http://localhost/v1/tokens", json=body) as answer:
            assert answer.status == 201, await answer.text()
            return str((await answer.json())["secret"])

    async def ask(
        self, method: str, path: str, token: str = "", *, of: str = "api", scheme: str = "http", **options: Any
    ) -> tuple[int, Any]:
        """Over TCP. ``of``: whose port."""
        headers = dict(options.pop("headers", {}))
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{scheme}://127.0.0.1:{self.place.port(of)}{path}"
        async with self.tcp.request(method, url, headers=headers, **options) as answer:
            try:
                return answer.status, await answer.json(content_type=None)
            except ValueError:
                return answer.status, await answer.text()


@asynccontextmanager
async def a_remote(root: Path, **http: Any) -> AsyncIterator[Remote]:
    config = SandboxConfig(state_dir=root / "market", real_processes=False, enforce_rate_limits=False)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(running_sandbox(config, SystemClock()))
        settings = Settings(
            state_dir=root / "state",
            api=ApiSettings(socket=root / "run" / "s"),
            http=HttpSettings(**{"listen": "127.0.0.1:0"} | http),
            providers={"vastai": a_market(sandbox.url, a_key(root))},
        )
        joined = await stack.enter_async_context(daemon(settings))
        await joined.engine.tick()
        unix = aiohttp.UnixConnector(str(settings.socket_path))
        here = await stack.enter_async_context(aiohttp.ClientSession(connector=unix, timeout=NO_LIMIT))
        tcp = await stack.enter_async_context(aiohttp.ClientSession(timeout=NO_LIMIT))
        yield Remote(joined, MailboxPlace(settings.mailbox_dir), here, tcp)
