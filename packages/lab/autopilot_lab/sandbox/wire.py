"""What HTTP layers share: the server behind them, keys, connections that are dropped or hang."""

from __future__ import annotations

import asyncio
import socket
import struct
from datetime import datetime
from typing import Protocol

from aiohttp import web

_CLOSED_CHECK_S = 0.05


class Host(Protocol):
    """What the server gives the HTTP layers."""

    def synchronise(self) -> datetime:
        """Bring the market up to the present, and say when that is."""
        ...

    async def settle(self) -> None:
        """Wait until processes have followed the market."""
        ...


async def reset(request: web.Request) -> web.StreamResponse:
    """Drop the connection so that the caller sees a reset."""
    transport = request.transport
    if transport is not None:
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response(status=500)


async def hang(request: web.Request, real_s: float, stopping: asyncio.Event) -> None:
    """Say nothing until the caller gives up, the time is over or the server stops."""
    loop = asyncio.get_running_loop()
    until = loop.time() + real_s
    while loop.time() < until and not stopping.is_set():
        if request.transport is None or request.transport.is_closing():
            return
        await asyncio.sleep(_CLOSED_CHECK_S)


def bearer_key(request: web.Request) -> str | None:
    """The key in ``Authorization`` or, failing that, in ``?api_key=``."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.query.get("api_key")
