"""A port of the listener: taken once its daemon leads, served behind a door of its own, and closed when another leads.

What one port suffers, the others do not: neither a taken address nor many connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from autopilot.blobs.place import MailboxPlace
from autopilot.listener.door import Connection, ConnectionLimits, Door, mark_busy
from autopilot.listener.own_socket import bind_own
from autopilot.listener.tls import Handshake, ServerCertificate

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.5
"""How often it looks whether its daemon still leads, or whether the port is free by now."""
SAY_AGAIN_S = 60.0
BACKLOG = 100
CUT_OFF_AFTER_S = 1.0
"""How long a request may go on once the port closes."""


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    host: str
    port: int
    """0: the port that it had before, or any that is free."""
    make_app: Callable[[], web.Application]
    consequence: str
    """What follows if the port cannot be taken."""
    certificate: Callable[[], ServerCertificate] | None = None
    """Read when the port is taken; None: no TLS."""
    ends_with_caller: bool = False
    """A call ends when its caller hangs up."""
    is_wanted: Callable[[], bool] = lambda: True
    """It is open only so long."""
    may_move: bool = False
    """To another port where the one that it had before is taken: nothing but a new link names it."""
    socket: Path | None = None
    """A unix socket, which its owner alone can open, in the place of host and port."""
    header_bytes: int = 8190
    """Limit for one header."""


class PortKeeper:
    """``token``: of the daemon whose child this is; None: it serves for whichever daemon of this host leads."""

    def __init__(
        self, port: Port, limits: ConnectionLimits, place: MailboxPlace, token: str | None, stopping: asyncio.Event
    ) -> None:
        self._port = port
        self._limits = limits
        self._place = place
        self._token = token
        self._stopping = stopping
        self._said_at: dict[str, float] = {}

    async def keep(self) -> None:
        """Serve until told to stop. Raises ``UserError`` for a signing key that is none."""
        while not self._stopping.is_set():
            if not self._port.is_wanted():
                pass
            elif self._place.is_served_for(self._token):
                try:
                    await self._serve()
                except OSError as problem:
                    consequence = f"{self._port.consequence} until it can; it tries on"
                    self._say("listener.cannot_listen", reason=str(problem), consequence=consequence)
            else:
                self._say("listener.waits", reason="no daemon leads here")
            await self._look_later()

    async def _serve(self) -> None:
        """Until told to stop, or another daemon leads. Raises ``OSError`` when the port cannot be taken."""
        port, place, loop = self._port, self._place, asyncio.get_running_loop()
        certificate = None if port.certificate is None else port.certificate()
        app = port.make_app()
        app.middlewares.append(mark_busy)
        options: dict[str, Any] = {"shutdown_timeout": CUT_OFF_AFTER_S, "handler_cancellation": port.ends_with_caller}
        runner = web.AppRunner(app, access_log=None, **options)
        await runner.setup()
        door, manager = Door(self._limits), runner.server
        assert manager is not None, "set-up makes it"

        def connection() -> Connection:
            return Connection(door, manager, loop=loop, max_field_size=port.header_bytes)

        def handshake() -> asyncio.Protocol:
            return connection() if certificate is None else Handshake(door, connection, certificate.context)

        try:
            async with await self._listen(handshake) as server:
                number = None if port.socket is not None else server.sockets[0].getsockname()[1]
                if number is not None and port.port == 0:
                    place.keep_port(number, port.name)
                print("listening", port.name, flush=True)  # noqa: T201 - the daemon that started it waits for this line
                at = {"port": number} if port.socket is None else {"socket": str(port.socket)}
                log.info("listener.serves", what=port.name, **at, connections=self._limits.connections)
                while not self._stopping.is_set() and place.is_served_for(self._token) and port.is_wanted():
                    await self._look_later()
                    self._renew(certificate)
                log.info("listener.closes", what=port.name, is_superseded=not self._stopping.is_set())
        finally:
            await runner.cleanup()

    async def _listen(self, make: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
        """Raises ``OSError``."""
        port, loop = self._port, asyncio.get_running_loop()
        if port.socket is not None:
            return await loop.create_unix_server(make, sock=bind_own(port.socket), backlog=BACKLOG)
        number = port.port or self._place.port(port.name) or 0
        try:
            return await loop.create_server(make, port.host, number, backlog=BACKLOG)
        except OSError:
            if not port.may_move or not number:
                raise
            return await loop.create_server(make, port.host, 0, backlog=BACKLOG)

    def _renew(self, certificate: ServerCertificate | None) -> None:
        try:
            if certificate is not None:
                certificate.renew()
        except OSError as problem:
            consequence = "the certificate from before stays in use"
            self._say("listener.certificate_unreadable", reason=str(problem), consequence=consequence)

    async def _look_later(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), LOOK_EVERY_S)

    def _say(self, event: str, **fields: object) -> None:
        """What goes on for long is said once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._said_at.get(event, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said_at[event] = now
            log.warning(event, what=self._port.name, **fields)
