"""A small real server that answers with the samples in tests/assets/api."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Job

SAMPLES = Path(__file__).parents[2] / "assets" / "api"


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text())


def sample_job(**changes: Any) -> Job:
    return replace(from_json(Job, sample("job")["job"]), **changes)


@dataclass
class Daemon:
    """``answers`` maps "METHOD path" to (status, body); a list of bodies is served one after the other."""

    socket: Path
    answers: dict[str, tuple[int, Any]]
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """(method and path, query string, body) as they came."""

    async def answer(self, request: web.Request) -> web.Response:
        asked = f"{request.method} {request.path}"
        raw = await request.text()
        self.requests.append((asked, request.query_string, json.loads(raw) if raw else None))
        status, body = self.answers.get(asked, (404, {"detail": f"no sample for {asked}", "hint": ""}))
        if isinstance(body, list):
            body = body.pop(0)
        if isinstance(body, str):
            return web.Response(status=status, text=body)
        return web.json_response(body, status=status)
