"""A way to the sandbox's vast.ai inside this process, for tests that are not about HTTP or the vendor's SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from autopilot.ports.clock import Clock
from autopilot.ports.provider import Provider
from autopilot.providers.reading import NoReply, Reply
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from autopilot_lab.sandbox.server import Sandbox
from autopilot_lab.sandbox.vastai.app import Dropped


class InProcess:
    """What the SDK's transport does, without a connection: the same paths, queries and bodies, as text."""

    def __init__(self, sandbox: Sandbox, key: str) -> None:
        self._sandbox = sandbox
        self._key = key

    async def send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        path = path if path.startswith("/api/") else f"/api/v0{path}"
        asked = {name: value if isinstance(value, str) else json.dumps(value) for name, value in (query or {}).items()}
        raw = b"" if body is None else json.dumps(body).encode()
        reply = await self._sandbox.vastai_api.ask(method, path, asked, raw, self._key)
        if isinstance(reply, Dropped):
            raise NoReply(f"no answer to {method} {path}", timed_out=reply.hang_s > 0)
        text = json.dumps(reply.body) if reply.text is None else reply.text
        return Reply(reply.status, text, reply.headers.get("Retry-After"), self._sandbox.date)

    async def fetch(self, url: str) -> Reply:
        reply = await self._sandbox.vastai_api.ask("GET", urlsplit(url).path, {}, b"", None)
        assert not isinstance(reply, Dropped), "no fault is injected here"
        return Reply(reply.status, json.dumps(reply.body) if reply.text is None else reply.text, None, None)

    def close(self) -> None:
        pass


def connect_in_process(sandbox: Sandbox, key: str, clock: Clock) -> Provider:
    client = VastaiClient(InProcess(sandbox, key), clock)
    return VastaiProvider(VastaiSettings(api_key=SecretStr(key), base_url=sandbox.url), client, clock)
