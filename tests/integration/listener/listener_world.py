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
from autopilot.config.settings import ApiSettings, ProviderSettings, Settings
from autopilot.lab.sandbox.server import SandboxConfig, running_sandbox
from autopilot.service.wiring import Daemon, daemon


@dataclass
class Remote:
    daemon: Daemon
    place: MailboxPlace
    here: aiohttp.ClientSession
    """On the users' socket."""
    tcp: aiohttp.ClientSession

    async def token(self, name: str = "ci", scope: str = "submit", **others: Any) -> str:
        body = {"name": name, "scope": scope, **others}
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
    key = root / "key"
    key.touch(mode=0o600)
    key.write_text("sandbox-key")
    config = SandboxConfig(state_dir=root / "market", real_processes=False)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(running_sandbox(config, SystemClock()))
        settings = Settings(
            state_dir=root / "state",
            api=ApiSettings(socket=root / "run" / "s"),
            http=HttpSettings(**{"listen": "127.0.0.1:0"} | http),
            providers={"vastai": ProviderSettings(base_url=sandbox.url, api_key_file=key)},
        )
        joined = await stack.enter_async_context(daemon(settings))
        await joined.engine.tick()
        unix = aiohttp.UnixConnector(str(settings.socket_path))
        here = await stack.enter_async_context(aiohttp.ClientSession(connector=unix))
        tcp = await stack.enter_async_context(aiohttp.ClientSession())
        yield Remote(joined, MailboxPlace(settings.mailbox_dir), here, tcp)
