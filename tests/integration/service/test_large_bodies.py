"""Large bodies at the users' socket: few of a user are in memory at once, and none for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from autopilot.answers.models.account import RevokeBody
from autopilot.api.large_bodies import LARGE_OF_A_USER, bound_bodies
from autopilot.api.requests import LARGE_BYTES, read_body_if_any
from autopilot.service.sockets import serve_users
from tests.patience import PATIENCE_S

LARGE = b"x" * (LARGE_BYTES + 1)
Call = Callable[..., asyncio.Task[int]]


class Desk:
    """Callers wait until the door is opened."""

    def __init__(self) -> None:
        self.here = 0
        self.most = 0
        self.is_full = asyncio.Event()
        self.door = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        self.here += 1
        self.most = max(self.most, self.here)
        if self.here == LARGE_OF_A_USER:
            self.is_full.set()
        await self.door.wait()
        size = len(await request.read())
        self.here -= 1
        return web.json_response({"size": size})


@asynccontextmanager
async def calls_to(desk: Desk, socket: Path, within_s: float = PATIENCE_S) -> AsyncIterator[Call]:
    async def ping(_: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application(middlewares=[bound_bodies(within_s)], client_max_size=1 << 20)
    app.add_routes([web.post("/v1/jobs", desk.take), web.put("/v1/code/{sha256}", desk.take), web.post("/ping", ping)])
    async with AsyncExitStack() as stack:
        await serve_users(socket, app, is_shared=False, stack=stack)
        connector = aiohttp.UnixConnector(str(socket), limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))

        async def call(method: str, path: str, data: object) -> int:
            async with http.request(method, f"http://localhost{path}", data=data) as answer:
                await answer.read()
                return answer.status

        yield lambda *what: asyncio.ensure_future(call(*what))


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "run" / "api.sock"


async def test_few_large_bodies_of_a_user_are_here_at_once(socket: Path) -> None:
    desk = Desk()
    async with calls_to(desk, socket) as call:
        waiting = [
            call(*what)
            for number in range(2 * LARGE_OF_A_USER)
            for what in [("POST", "/v1/jobs", LARGE) if number % 2 else ("PUT", f"/v1/code/{number:064x}", LARGE)]
        ]
        await desk.is_full.wait()
        for _ in range(20):
            assert await call("POST", "/ping", json.dumps({})) == 200, "a small body passes by them"
        desk.door.set()
        assert await asyncio.gather(*waiting) == [200] * len(waiting)
    assert desk.most == LARGE_OF_A_USER


async def test_a_body_that_was_read_already_is_read_again(socket: Path) -> None:
    """What a call may leave out is not taken to be left out."""

    async def told(request: web.Request) -> web.Response:
        body = await read_body_if_any(request, RevokeBody)
        return web.json_response({}, status=202 if body.park else 200)

    app = web.Application(middlewares=[bound_bodies()])
    app.add_routes([web.post("/v1/tokens/{name}/revoke", told)])
    async with AsyncExitStack() as stack:
        await serve_users(socket, app, is_shared=False, stack=stack)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))))
        for data, status in ((b'{"park": true}', 202), (b"{}", 200), (b"", 200), (None, 200)):
            async with http.post("http://localhost/v1/tokens/ci/revoke", data=data) as answer:
                assert answer.status == status, data


async def test_one_that_hangs_up_gives_its_turn_back(socket: Path) -> None:
    desk = Desk()
    desk.door.set()

    async def half() -> AsyncIterator[bytes]:
        yield LARGE
        await asyncio.Event().wait()

    async with calls_to(desk, socket) as call:
        hanging = [call("POST", "/v1/jobs", half()) for _ in range(LARGE_OF_A_USER)]
        assert await call("POST", "/ping", b"{}") == 200
        for each in hanging:
            each.cancel()
        assert await call("POST", "/v1/jobs", LARGE) == 200


async def test_a_body_that_never_ends_is_given_up(socket: Path) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    desk = Desk()
    async with calls_to(desk, socket, within_s=0.01) as call:
        assert await call("POST", "/v1/jobs", half()) == 408
    assert desk.most == 0
