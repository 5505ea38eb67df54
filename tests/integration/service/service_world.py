"""A daemon with everything joined, and calls to its control socket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.service.wiring import Daemon
from tests.api_answers import check_answer


@dataclass
class Served:
    daemon: Daemon
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
        data = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        async with self.http.request(method, f"http://localhost{path}", data=data) as answer:
            check_answer(method, path, answer.status, await answer.read(), answer.content_type)
            return answer.status, await answer.json(content_type=None)


def a_key(directory: Path) -> Path:
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text("sandbox-key")
    return key
