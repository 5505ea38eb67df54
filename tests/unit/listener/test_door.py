"""Limits on connections, on real sockets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from autopilot.listener.door import Connection, ConnectionLimits, Door, mark_busy
from tests.patience import eventually

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Served:
    door: Door
    port: int
    may_answer: asyncio.Event
    asked: list[web.Request]

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def serving(limits: ConnectionLimits, size: int = 2) -> AsyncIterator[Served]:
    may_answer = asyncio.Event()
    may_answer.set()

    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        await may_answer.wait()
        return web.Response(body=b"x" * size)

    app = web.Application(middlewares=[mark_busy])
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    door, manager, loop = Door(limits), runner.server, asyncio.get_running_loop()
    assert manager is not None
    async with await loop.create_server(lambda: Connection(door, manager, loop=loop), "127.0.0.1", 0) as server:
        yield Served(door, server.sockets[0].getsockname()[1], may_answer, asked)
        may_answer.set()
        await runner.cleanup()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Once the other side has closed the connection."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


async def answered(streams: Streams) -> bool:
    reader, writer = streams
    writer.write(REQUEST)
    return (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving(ConnectionLimits(first_request_s=0.1)) as served:
        reader, _ = await served.connect()
        assert await is_closed(reader)
        assert served.door.open == 0


async def test_a_header_that_never_ends_is_not_waited_for() -> None:
    async with serving(ConnectionLimits(first_request_s=0.3)) as served:
        reader, writer = await served.connect()

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\n")
            while True:
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await is_closed(reader)
        dripping.cancel()


async def test_a_connection_that_is_idle_after_a_request_is_closed() -> None:
    async with serving(ConnectionLimits(idle_s=0.2)) as served:
        streams = await served.connect()
        assert await answered(streams)
        assert await is_closed(streams[0])


async def test_a_request_under_way_is_closed_by_none_of_them() -> None:
    async with serving(ConnectionLimits(first_request_s=1, idle_s=0.05)) as served:
        served.may_answer.clear()
        streams = await served.connect()
        answer = asyncio.create_task(answered(streams))
        await eventually(lambda: served.asked)
        await asyncio.sleep(1.2)
        served.may_answer.set()
        assert await answer


async def test_an_answer_that_is_not_read_is_dropped() -> None:
    async with serving(ConnectionLimits(stalled_s=0.2), size=32 << 20) as served:
        _, writer = await served.connect()
        writer.write(REQUEST)
        await eventually(lambda: served.door.open == 1)
        await eventually(lambda: served.door.open == 0)


async def test_the_longest_idle_makes_room_and_a_request_under_way_does_not() -> None:
    async with serving(ConnectionLimits(connections=3)) as served:
        served.may_answer.clear()
        busy = await served.connect()
        answer = asyncio.create_task(answered(busy))
        idle = [await served.connect() for _ in range(2)]
        newer = await served.connect()
        assert await is_closed(idle[0][0])
        assert served.door.open == 3
        served.may_answer.set()
        assert await answered(newer)
        assert await answer


async def test_no_further_connection_is_admitted_when_all_are_busy() -> None:
    async with serving(ConnectionLimits(connections=2)) as served:
        served.may_answer.clear()
        answers = [asyncio.create_task(answered(await served.connect())) for _ in range(2)]
        await eventually(lambda: len(served.asked) == 2)
        reader, _ = await served.connect()
        assert await is_closed(reader)
        served.may_answer.set()
        assert await asyncio.gather(*answers) == [True, True]


@dataclass(eq=False)
class Caller:
    """What the door knows of a connection from elsewhere, which no test can make from one machine."""

    address: str
    is_closed: bool = False

    def abort(self) -> None:
        self.is_closed = True


def test_one_address_takes_no_more_than_its_share_unless_it_is_a_proxy_here() -> None:
    door = Door(ConnectionLimits(connections=100, connections_per_address=2))
    there = [Caller("192.0.2.7") for _ in range(3)]
    for caller in there:
        assert door.enter(caller)
    assert [caller.is_closed for caller in there] == [True, False, False]
    for caller in there[1:]:
        door.set_busy(caller, True)
    assert not door.enter(Caller("192.0.2.7"))
    assert door.enter(Caller("192.0.2.8"))
    door.leave(there[1])
    assert door.enter(Caller("192.0.2.7"))
    for address in ("127.0.0.1", "::1"):
        assert all(door.enter(Caller(address)) for _ in range(10))


ROOM = """
import resource
from autopilot.listener.door import ConnectionLimits
from autopilot.listener.process import fit_descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))
print(fit_descriptors(ConnectionLimits())[0].connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hard", "expected"), [(400, (125, 400)), (2048, (400, 2048)), (4096, (400, 2048)), (100, (8, 100))]
)
def test_there_are_no_more_connections_than_descriptors(hard: int, expected: tuple[int, int]) -> None:
    done = subprocess.run([sys.executable, "-c", ROOM.format(hard=hard)], capture_output=True, text=True, check=True)
    assert tuple(map(int, done.stdout.split())) == expected
