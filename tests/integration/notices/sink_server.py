"""A receiver of webhooks that keeps what it was sent, and answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"


@dataclass
class SinkServer:
    url: str = ""
    answer: Callable[[int], int] = lambda _: 204
    """The status for the call of that number, the first is 0."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each call."""
    answers_at_once: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set nothing is answered."""

    def __post_init__(self) -> None:
        self.answers_at_once.set()

    async def take(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.paths.append(request.path)
        if "webhook-id" in request.headers:
            assert Verifier(SECRET).verify(body, dict(request.headers)) == json.loads(body)
            self.bodies.append(json.loads(body))
            self.message_ids.append(request.headers["webhook-id"])
        self.arrived.set()
        number = len(self.paths) - 1
        await self.answers_at_once.wait()
        return web.Response(status=self.answer(number), headers={"location": "/elsewhere"})

    def notices(self) -> list[dict[str, Any]]:
        """All that came, once for each time that it came."""
        return [each for body in self.bodies for each in body["data"].get("notices", [body["data"]])]

    def times(self) -> Counter[str]:
        """How often each notice came, by its id."""
        return Counter(notice["id"] for notice in self.notices())


@asynccontextmanager
async def a_sink_server(port: int = 0) -> AsyncIterator[SinkServer]:
    server = SinkServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
