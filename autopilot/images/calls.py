"""One request to a registry: to public addresses alone, with bounded size and time, and no password sent elsewhere."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from autopilot.addresses import socket_factory

CALL_REAL_S = 8.0
MOST_BYTES = 4 * 1024 * 1024
"""Of one answer. A registry must take manifests of this size, and need not take larger ones."""
LARGEST_HEADER_BYTES = 8 * 1024
MOST_REDIRECTS = 3
_MOVED = (301, 302, 303, 307, 308)


class RegistryFailed(Exception):
    """What was asked for did not arrive. Its text is for people, and has no address with a signature in it."""


@dataclass(frozen=True, slots=True)
class RegistryReply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read_json(self) -> dict[str, Any]:
        """Raises ``RegistryFailed``."""
        try:
            parsed = json.loads(self.body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise RegistryFailed("it answered what is no JSON object")
        return parsed


class RegistryCalls:
    """``local``: hosts as ``host:port`` that may be called by HTTP, and at addresses of this machine's network."""

    def __init__(self, local: Collection[str] = ()) -> None:
        self._local = frozenset(local)

    def is_local(self, host: str) -> bool:
        return host in self._local

    def address_of(self, host: str, path: str) -> str:
        return f"{'http' if self.is_local(host) else 'https'}://{host}{path}"

    async def call(self, method: str, url: str, headers: Mapping[str, str]) -> RegistryReply:
        """Redirects are followed, without the request's authorization where they lead to another host.

        Raises ``RegistryFailed``.
        """
        sent = dict(headers)
        for _ in range(MOST_REDIRECTS + 1):
            reply = await self._call_once(method, url, sent)
            target = reply.headers.get("Location", "")
            if reply.status not in _MOVED or not target:
                return reply
            host, url = host_of(url), _follow(url, target)
            if host_of(url) != host:
                sent.pop("Authorization", None)
        raise RegistryFailed(f"it redirected more than {MOST_REDIRECTS} times")

    async def _call_once(self, method: str, url: str, headers: Mapping[str, str]) -> RegistryReply:
        host = host_of(url)
        local = self.is_local(host)
        if urlsplit(url).scheme != "https" and not local:
            raise RegistryFailed(f"it leads to {host} without TLS")
        # A connection is made for each call: the address that is dialled is the one that was checked.
        connector = aiohttp.TCPConnector(socket_factory=socket_factory(local=local), limit=1, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=aiohttp.ClientTimeout(total=CALL_REAL_S),
                    max_line_size=LARGEST_HEADER_BYTES,
                    max_field_size=LARGEST_HEADER_BYTES,
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
                session.request(method, url, headers=headers, allow_redirects=False) as answer,
            ):
                body = await _read_body(answer)
                return RegistryReply(answer.status, answer.headers.copy(), body)
        except TimeoutError:
            raise RegistryFailed(f"{host} gave no whole answer within {CALL_REAL_S:g} s") from None
        except aiohttp.ClientConnectorError as problem:
            raise RegistryFailed(f"{host} cannot be reached: {problem.os_error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise RegistryFailed(f"{host}: {type(problem).__name__}") from None


async def _read_body(answer: aiohttp.ClientResponse) -> bytes:
    """Unpacked as well it may have no more than the limit. Raises ``RegistryFailed``."""
    body = bytearray()
    async for part in answer.content.iter_chunked(64 * 1024):
        body += part
        if len(body) > MOST_BYTES:
            raise RegistryFailed(f"it sent more than {MOST_BYTES:,} bytes")
    return bytes(body)


def _follow(url: str, target: str) -> str:
    """Raises ``RegistryFailed``."""
    try:
        return urljoin(url, target)
    except ValueError:
        raise RegistryFailed("it redirects to what is no address") from None


def host_of(url: str) -> str:
    """With its port, if it names one; raises ``RegistryFailed`` for what is no address of a host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or "@" in parts.netloc:
        raise RegistryFailed("it leads to no address of a host")
    return host if port is None else f"{host}:{port}"
