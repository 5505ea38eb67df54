"""Limits on connections: how many there are, in all and from one address, and how long one may be silent.

An idle connection makes room for a new one, so that many of them keep no honest machine out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds are real ones."""

    connections: int = 400
    connections_per_address: int = 64
    """Not from this machine itself: there a reverse proxy speaks for all others."""
    first_request_s: float = 15.0
    """From the opening of a connection until the whole header of its first request is in."""
    idle_s: float = 75.0
    """From the end of one request until the whole header of the next; longer than most reverse proxies wait."""
    stalled_s: float = 60.0
    """How long an answer waits for a client that does not read on."""


class Guest(Protocol):
    """A connection, or one that is being made."""

    address: str

    def abort(self) -> None: ...


class Door:
    """All open connections, those without a request in the order in which they became idle."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._busy: set[Guest] = set()
        self._idle: dict[Guest, None] = {}
        self._by_address: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._busy) + len(self._idle)

    def enter(self, connection: Guest) -> bool:
        """Whether there is room, perhaps in the place of another connection that is idle."""
        address, limits = connection.address, self.limits
        is_crowded = self._by_address[address] >= limits.connections_per_address and not _is_here(address)
        if is_crowded and not self._close_idle(address):
            return False
        if self.open >= limits.connections and not self._close_idle():
            return False
        self._idle[connection] = None
        self._by_address[address] += 1
        return True

    def leave(self, connection: Guest) -> None:
        """Forget a connection; does nothing for one that is not there."""
        if connection not in self._idle and connection not in self._busy:
            return
        self._idle.pop(connection, None)
        self._busy.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def set_busy(self, connection: Guest, is_busy: bool) -> None:
        if connection not in self._idle and connection not in self._busy:
            return
        if is_busy:
            del self._idle[connection]
            self._busy.add(connection)
        else:
            self._busy.discard(connection)
            self._idle[connection] = None

    def _close_idle(self, address: str | None = None) -> bool:
        """Close what has been idle for longest, of that address if one is given; False when nothing is."""
        for connection in self._idle:
            if address in (None, connection.address):
                self.leave(connection)
                connection.abort()
                return True
        return False


class Connection(web.RequestHandler):
    """One connection of an aiohttp server, behind a ``Door``."""

    __slots__ = ("_door", "_first_request", "_stalled", "address")

    def __init__(self, door: Door, manager: web.Server, **options: Any) -> None:
        options |= {"keepalive_timeout": door.limits.idle_s, "lingering_time": 2.0, "access_log": None}
        super().__init__(manager, **options)
        self._door = door
        self._first_request: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = address_of(transport)
        if not self._door.enter(self):
            self.abort()
            return
        self._first_request = self._loop.call_later(self._door.limits.first_request_s, self.abort)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._door.leave(self)
        for timer in (self._first_request, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._loop.call_later(self._door.limits.stalled_s, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def set_busy(self, is_busy: bool) -> None:
        """A request begins or has ended."""
        if self._first_request is not None:
            self._first_request.cancel()
        self._door.set_busy(self, is_busy)

    def abort(self) -> None:
        """Close at once, dropping what is still to be written."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()


@web.middleware
async def mark_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection = request.protocol
    if not isinstance(connection, Connection):
        return await handler(request)
    connection.set_busy(True)
    try:
        return await handler(request)
    finally:
        connection.set_busy(False)


def address_of(transport: asyncio.BaseTransport) -> str:
    """The address at the other end."""
    return str((transport.get_extra_info("peername") or ("",))[0])


def _is_here(address: str) -> bool:
    """Whether the address is of this machine: loopback, or a unix socket, which has none."""
    if not address:
        return True
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
