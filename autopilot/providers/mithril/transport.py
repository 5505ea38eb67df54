"""What carries requests to the market and brings back its answers unread: one attempt each, nothing repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp

from autopilot import __version__
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.reading import NoReply, Reply
from autopilot.providers.reported_time import date_of

LARGEST_BODY_BYTES = 8 * 2**20
USER_AGENT = f"gpu-autopilot/{__version__}"


class Transport(Protocol):
    async def send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Raises ``NoReply``."""
        ...

    async def close(self) -> None: ...


class HttpTransport:
    def __init__(self, settings: MithrilSettings) -> None:
        self._key = settings.api_key.get_secret_value()
        self._base_url = settings.base_url
        self._headers = {"Authorization": f"Bearer {self._key}", "User-Agent": USER_AGENT}
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        try:
            # A redirect is not followed: it would carry the key elsewhere and a create twice.
            async with self._session.request(
                method, self._base_url + path, params=parameters, json=body, headers=headers, allow_redirects=False
            ) as response:
                headers = response.headers
                return Reply(response.status, await self._text(response), headers.get("Retry-After"), date_of(headers))
        except NoReply:
            raise
        except Exception as error:
            # Anything at all may have happened after the request left, so that no kind of error means "not sent".
            timed_out = isinstance(error, TimeoutError)
            raise NoReply(f"no answer to {method} {path}: {type(error).__name__}", timed_out=timed_out) from None

    async def _text(self, response: aiohttp.ClientResponse) -> str:
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 2**10):
            body += chunk
            if len(body) > LARGEST_BODY_BYTES:
                raise NoReply(f"the answer is larger than {LARGEST_BODY_BYTES} bytes")
        return body.decode("utf-8", "replace").replace(self._key, "[key]")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
