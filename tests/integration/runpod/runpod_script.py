"""A server that answers as told: for what no market does on purpose."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

ASSETS = Path(__file__).parents[2] / "assets" / "runpod"
KEY = "a-very-secret-key"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
_OPERATION = re.compile(
    r"\b(podRentInterruptable|podFindAndDeployOnDemand|podBidResume|podResume|podStop|podTerminate)"
)


def sample(name: str) -> Any:
    return json.loads((ASSETS / f"{name}.json").read_text())


def pod(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = sample("graphql/pod_running_sweep_fields")["data"]["pod"]
    return found | changes


@dataclass(frozen=True)
class Http:
    """An answer with a status; a body that is text is sent as it is."""

    status: int
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)


def sweep(*pods: Any, balance: Any = 42.25) -> dict[str, Any]:
    return {"data": {"myself": {"clientBalance": balance, "pods": list(pods)}}}


def one(pod: Any) -> dict[str, Any]:
    return {"data": {"pod": pod}}


def failed(operation: str, message: str, code: str = "RUNPOD") -> dict[str, Any]:
    error = {"message": message, "path": [operation], "extensions": {"code": code}}
    return {"errors": [error], "data": {operation: None}}


@dataclass
class Script:
    """Answers by name, the last one again and again; ``seen`` keeps what was asked.

    Names: ``probe``, ``sweep``, ``balance``, ``pod``, ``gpuTypes``, ``prices``, a mutation's, or ``GET /v2/pods``.
    """

    answers: dict[str, list[Any]] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        name = _named(json.loads(body)["query"]) if request.path == "/graphql" else f"{request.method} {request.path}"
        self.seen.append((name, dict(request.headers), f"{request.rel_url} {body}"))
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, str):
            return web.Response(text=answer)
        if isinstance(answer, Http):
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            return web.Response(status=answer.status, text=text, headers=answer.headers)
        if callable(answer):
            made: web.StreamResponse = await answer(request)
            return made
        return web.json_response(answer)

    def count(self, name: str) -> int:
        return sum(seen == name for seen, _, _ in self.seen)

    def asked(self, name: str) -> str:
        """What was sent the last time."""
        return next(text for seen, _, text in reversed(self.seen) if seen == name)


def _named(query: str) -> str:
    if "@skip" in query:
        return "probe"
    if operation := _OPERATION.search(query):
        return operation[1]
    if "lowestPrice" in query:
        return "prices"
    if "gpuTypes" in query:
        return "gpuTypes"
    if "myself" in query:
        return "sweep" if "pods" in query else "balance"
    return "pod"


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Script]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    script.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield script
    finally:
        await runner.cleanup()
