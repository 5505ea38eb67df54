"""Requests to the daemon in asyncio, and its answers as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from autopilot.client.answer import check_size
from autopilot.client.connections import explain, make_login, make_tls
from autopilot.client.errors import Unreachable
from autopilot.config.daemon_address import DaemonAddress

_LINE_BYTES = 4 << 20
"""Limit for a line of a stream: a chunk of output is on one line."""


async def read_whole(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Raises ``UnreadableAnswer`` for more than ``most`` bytes."""
    blocks, left = [], most + 1
    while left and (block := await answer.content.read(left)):
        blocks.append(block)
        left -= len(block)
    return check_size(answer.status, b"".join(blocks), most)


class DaemonExchange:
    """Connections to one daemon; they are kept open between requests."""

    def __init__(self, address: DaemonAddress, within: aiohttp.ClientTimeout, *, calls_at_once: int = 100) -> None:
        self._address = address
        self._within = within
        self._calls_at_once = calls_at_once
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str] | None = None,
        data: bytes | AsyncIterator[bytes] | None = None,
        within: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, to be read inside. Raises ``Unreachable``, also for what breaks off there; ``UserError``."""
        url = URL((self._address.url or "http://localhost") + path, encoded=True)
        limits = within or self._within
        try:
            async with self._make_session().request(
                method, url, params=query or {}, data=data, headers=headers, timeout=limits
            ) as response:
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._explain(error, limits) from error

    def _make_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector: aiohttp.BaseConnector
            if self._address.socket is not None:
                connector = aiohttp.UnixConnector(str(self._address.socket), limit=self._calls_at_once)
            else:
                tls = make_tls(self._address) or True
                connector = aiohttp.TCPConnector(ssl=tls, limit=self._calls_at_once)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=make_login(self._address), read_bufsize=_LINE_BYTES
            )
        return self._session

    def _explain(self, error: Exception, within: aiohttp.ClientTimeout) -> Unreachable:
        """aiohttp wraps what has kept it from connecting."""
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
        is_early = isinstance(error, aiohttp.ConnectionTimeoutError)
        return explain(
            self._address, cause, (within.sock_connect if is_early else within.total or within.sock_read) or 0
        )
