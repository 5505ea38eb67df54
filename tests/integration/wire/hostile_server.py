"""A server below HTTP: it takes any request and answers with bytes of its choice, at a pace of its choice."""

from __future__ import annotations

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.patience import PATIENCE_S

Act = Callable[[asyncio.StreamWriter], Awaitable[None]]
DRIP_S = 0.05
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@dataclass
class HostileServer:
    """``act`` answers each request; ``heads`` keeps the requests' first lines and headers."""

    act: Act
    url: str = ""
    heads: list[str] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            await self.act(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()


@asynccontextmanager
async def hostile_server(act: Act, tls: ssl.SSLContext | None = None) -> AsyncIterator[HostileServer]:
    made = HostileServer(act)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in list(made.tasks):
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """One byte at a time, for ever: no single wait is ever long."""
    while True:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(DRIP_S)


async def dripping_body(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 9999999\r\n\r\n")
    await drip(writer, b" ")


async def dripping_chunks(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await drip(writer, b"1\r\n \r\n")


async def dripping_head(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    await drip(writer, b"X-More: y\r\n")


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(2 * PATIENCE_S)


async def hundred_megabytes(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 104857600\r\n\r\n")
    for _ in range(100):
        writer.write(b" " * 2**20)
        await writer.drain()


@functools.cache
def _bomb() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * 2**20) for _ in range(256)) + packer.flush()


async def gzip_bomb(writer: asyncio.StreamWriter) -> None:
    """A quarter of a gigabyte of blanks in one megabyte."""
    writer.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_bomb()))
    writer.write(_bomb())
    await writer.drain()


async def half_an_answer(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 999\r\n\r\n" + b'{"success": true, "new_contract": 7')


async def deep_json(writer: asyncio.StreamWriter) -> None:
    body = b"[" * 200_000
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


async def huge_number(writer: asyncio.StreamWriter) -> None:
    body = b'{"instances": [], "total_instances": %s}' % (b"9" * 100_000)
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def redirect_to(url: str, status: int) -> Act:
    async def act(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {url}/graphql\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode())

    return act
