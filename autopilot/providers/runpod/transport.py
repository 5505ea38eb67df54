"""What carries requests to the market and brings back its answers unread: one attempt each, nothing repeated.

Requests of our own go over HTTP; three calls go through the vendor's SDK, which works in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import aiohttp

from autopilot import __version__
from autopilot.providers.reading import NoReply, Reply
from autopilot.providers.reported_time import date_of
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.runpod.sdk import Sdk

T = TypeVar("T")

TEAM_HEADER = "X-Team-Id"
LARGEST_BODY_BYTES = 8 * 2**20
THREADS = 4
SDK_TIMEOUT_S = 40.0
"""Real seconds; the SDK itself gives up when nothing came for 30."""
LISTEN_REAL_S, QUIET_REAL_S = 5.0, 0.5
"""How long a stream is listened to, and how long when nothing comes."""
USER_AGENT = f"gpu-autopilot/{__version__}"
"""The market's gateway turns away clients that it does not know by name."""


class Transport(Protocol):
    """Every method but ``close`` raises ``NoReply``; the calls of the SDK raise ``SdkRefused`` as well."""

    async def send(
        self, method: str, path: str, *, parameters: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Reply: ...

    async def listen(self, path: str, parameters: Mapping[str, str]) -> Reply:
        """What a stream that does not end has to say at first."""
        ...

    async def gpu_types(self) -> Any:
        """All GPU types that the market knows, rentable or not: id, displayName, memoryInGb."""
        ...

    async def stop(self, pod_id: str) -> bool:
        """True if the market says that the pod has stopped."""
        ...

    async def terminate(self, pod_id: str) -> None:
        """That nothing is raised proves nothing."""
        ...

    async def close(self) -> None: ...


class HttpTransport:
    def __init__(self, settings: RunpodSettings) -> None:
        self._key = settings.api_key.get_secret_value()
        self._base_url = settings.base_url
        team = {TEAM_HEADER: settings.team_id} if settings.team_id else {}
        self._headers = {"Authorization": f"Bearer {self._key}", "User-Agent": USER_AGENT, **team}
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="runpod")
        self._sdk = Sdk(self._key, settings.base_url, settings.timeout_s, team)

    async def send(
        self, method: str, path: str, *, parameters: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Reply:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        try:
            # A redirect is not followed: it would carry the key elsewhere and a create twice.
            async with self._session.request(
                method, self._base_url + path, params=parameters, json=body, allow_redirects=False
            ) as response:
                headers = response.headers
                return Reply(response.status, await self._text(response), headers.get("Retry-After"), date_of(headers))
        except NoReply:
            raise
        except Exception as error:
            # Anything at all may have happened after the request left, so that no kind of error means "not sent".
            timed_out = isinstance(error, TimeoutError)
            raise NoReply(f"no answer to {method} {path}: {type(error).__name__}", timed_out=timed_out) from None

    async def listen(self, path: str, parameters: Mapping[str, str]) -> Reply:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        heard = bytearray()
        status = 0
        try:
            async with (
                asyncio.timeout(LISTEN_REAL_S),
                self._session.get(self._base_url + path, params=parameters, allow_redirects=False) as response,
            ):
                status = response.status
                while len(heard) < LARGEST_BODY_BYTES and (chunk := await self._next(response)):
                    heard += chunk
        except TimeoutError as error:
            if not status:
                raise NoReply(f"no answer to GET {path}", timed_out=True) from error
        except Exception as error:
            raise NoReply(f"no answer to GET {path}: {type(error).__name__}") from None
        return Reply(status, heard.decode("utf-8", "replace").replace(self._key, "[key]"), None)

    async def _next(self, response: aiohttp.ClientResponse) -> bytes:
        """The next piece; nothing if none comes soon."""
        try:
            async with asyncio.timeout(QUIET_REAL_S):
                return await response.content.readany()
        except TimeoutError:
            return b""

    async def _text(self, response: aiohttp.ClientResponse) -> str:
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 2**10):
            body += chunk
            if len(body) > LARGEST_BODY_BYTES:
                raise NoReply(f"the answer is larger than {LARGEST_BODY_BYTES} bytes")
        return body.decode("utf-8", "replace").replace(self._key, "[key]")

    async def gpu_types(self) -> Any:
        return await self._by_sdk(self._sdk.gpu_types)

    async def stop(self, pod_id: str) -> bool:
        return await self._by_sdk(self._sdk.stop, pod_id)

    async def terminate(self, pod_id: str) -> None:
        await self._by_sdk(self._sdk.terminate, pod_id)

    async def _by_sdk(self, call: Callable[..., T], *arguments: str) -> T:
        """A call that took too long runs on in its thread."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
        try:
            return await asyncio.wait_for(running, SDK_TIMEOUT_S)
        except TimeoutError:
            raise NoReply("the SDK has not returned", timed_out=True) from None

    async def close(self) -> None:
        """Calls of the SDK that are under way end by their own timeout."""
        self._threads.shutdown(wait=False)
        if self._session is not None:
            await self._session.close()
