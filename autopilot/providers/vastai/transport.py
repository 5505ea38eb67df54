"""What carries requests to the market and brings back its answers unread: one attempt each, nothing repeated."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from autopilot.providers.reading import Reply
from autopilot.providers.vastai.config import VastaiSettings

if TYPE_CHECKING:
    from autopilot.providers.vastai.sdk import Sdk

THREADS = 8


class Transport(Protocol):
    async def send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        """Raises ``NoReply`` when no complete answer came."""
        ...

    async def fetch(self, url: str) -> Reply:
        """A plain GET without the key. Raises ``NoReply``."""
        ...

    def close(self) -> None: ...


class SdkTransport:
    """The vendor's SDK, off the event loop."""

    def __init__(self, settings: VastaiSettings) -> None:
        """Raises ``ModuleNotFoundError`` without the SDK."""
        from autopilot.providers.vastai.sdk import Sdk

        self._sdk: Sdk = Sdk(settings.api_key.get_secret_value(), settings.base_url, settings.timeout_s)
        # Threads of our own: a market that hangs must not use up the event loop's shared ones.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="vastai")

    async def send(
        self, method: str, path: str, *, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        call = functools.partial(self._sdk.send, method, path, query=query, body=body)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def fetch(self, url: str) -> Reply:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._sdk.fetch, url)

    def close(self) -> None:
        """Requests under way end by their own timeout."""
        self._threads.shutdown(wait=False)
