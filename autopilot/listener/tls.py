"""TLS behind the door: a connection counts from its first byte, and not only once its handshake is over."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autopilot.listener.door import Connection, Door, address_of


@dataclass(slots=True)
class ServerCertificate:
    """Read again when its file was replaced. Methods raise ``OSError`` for files that cannot be read or are none."""

    cert_file: Path
    key_file: Path
    context: ssl.SSLContext = field(init=False)
    _version: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load()

    def renew(self) -> None:
        if self._seen() != self._version:
            self._load()

    def _load(self) -> None:
        version = self._seen()
        self.context.load_cert_chain(self.cert_file, self.key_file, password=_refuse_password)
        self._version = version

    def _seen(self) -> tuple[int, int]:
        return self.cert_file.stat().st_mtime_ns, self.key_file.stat().st_mtime_ns


def _refuse_password() -> str:
    raise OSError("the key is locked by a password, and there is no prompt to type it")


class Handshake(asyncio.Protocol):
    """The beginning of a connection: it becomes a ``Connection`` once both sides speak TLS, or ends."""

    def __init__(self, door: Door, make: Callable[[], Connection], context: ssl.SSLContext) -> None:
        self._door = door
        self._make = make
        self._context = context
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address = address_of(transport)
        if not self._door.enter(self):
            self.abort()
            return
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    def connection_lost(self, _: Exception | None) -> None:
        self._door.leave(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        connection, loop = self._make(), asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                connection,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._door.limits.first_request_s,
                ssl_shutdown_timeout=2.0,
            )
        except (OSError, TimeoutError):  # an error of TLS is an OSError
            secured = None
        finally:
            self._door.leave(self)
        if secured is None:
            transport.abort()
        else:
            connection.connection_made(secured)
