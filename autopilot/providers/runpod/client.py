"""Requests to the market: paced, reads repeated, changes sent once. The SDK works in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import aiohttp

from autopilot import __version__
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.pacing import Lane
from autopilot.providers.runpod import outcomes
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.runpod.pacing import INTERVAL_S, Family, lanes
from autopilot.providers.runpod.reply import Answer, Fault, NoReply, Reply, understand
from autopilot.providers.runpod.sdk import Sdk

T = TypeVar("T")

READ_TRIES = 3
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 15.0
LONGEST_HOLD_S = 60.0
"""However long the market says to stay away, a destroy has to be tried again."""
LARGEST_BODY_BYTES = 8 * 2**20
THREADS = 4
SDK_TIMEOUT_S = 40.0
"""Real seconds; the SDK itself gives up when nothing came for 30."""
USER_AGENT = f"gpu-autopilot/{__version__}"
"""The market's gateway turns away clients that it does not know by name."""


class RunpodClient:
    def __init__(self, settings: RunpodSettings, clock: Clock) -> None:
        self._key = settings.api_key.get_secret_value()
        self._base_url = settings.base_url
        self._headers = {"Authorization": f"Bearer {self._key}", "User-Agent": USER_AGENT}
        if settings.team_id:
            self._headers["X-Team-Id"] = settings.team_id
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._clock = clock
        self._lanes = lanes(clock)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="runpod")
        self.sdk = Sdk(self._key, settings.base_url, settings.timeout_s)

    def lane(self, family: Family) -> Lane:
        return self._lanes[family]

    async def query(
        self, document: str, variables: Mapping[str, Any] | None = None, *, tries: int = READ_TRIES
    ) -> Mapping[str, Any]:
        """``data`` of a GraphQL query. Raises ``MarketUnknown``, ``Withdrawn``."""
        body = await self._read(Family.GRAPHQL_READ, lambda: self.graphql(document, variables), tries)
        data = body.get("data")
        if not isinstance(data, dict):
            raise MarketUnknown("the answer holds no data")
        return data

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Body of a REST read. Raises ``MarketUnknown``, ``Withdrawn``."""
        return await self._read(Family.REST_READ, lambda: self.rest("GET", path, parameters=parameters), READ_TRIES)

    async def by_sdk(self, family: Family, call: Callable[..., T], *arguments: str) -> T:
        """One call of the SDK. Raises ``SdkRefused``, ``NoReply``; a call that took too long runs on in its thread."""
        async with self.lane(family):
            running = asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)
            try:
                return await asyncio.wait_for(running, SDK_TIMEOUT_S)
            except TimeoutError:
                raise NoReply("the SDK has not returned", timed_out=True) from None

    async def graphql(self, document: str, variables: Mapping[str, Any] | None = None) -> Answer:
        """One attempt without waiting for a turn. Raises ``NoReply``."""
        return await self._send("POST", "/graphql", body={"query": document, "variables": dict(variables or {})})

    async def rest(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One attempt without waiting for a turn; ``path`` beneath ``/v2``. Raises ``NoReply``."""
        return await self._send(method, f"/v2{path}", parameters=parameters, body=body)

    async def _read(self, family: Family, ask: Callable[[], Awaitable[Answer]], tries: int) -> Mapping[str, Any]:
        backoff_s = FIRST_BACKOFF_S
        for tries_left in reversed(range(tries)):
            try:
                async with self.lane(family):
                    answer = await ask()
                    self._obey(family, answer)
            except NoReply as error:
                if not tries_left or error.timed_out:
                    raise MarketUnknown(str(error)) from error
            else:
                try:
                    return outcomes.read(answer)
                except MarketUnknown as error:
                    if not tries_left or not _passes_soon(answer, error):
                        raise
                    backoff_s = max(backoff_s, answer.retry_after_s or 0)
            await self._clock.sleep(backoff_s)
            backoff_s *= 2
        raise AssertionError("the last try returns or raises")

    async def change(self, family: Family, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """One attempt, in its turn. Raises ``NoReply``."""
        async with self.lane(family):
            answer = await ask()
            self._obey(family, answer)
            return answer

    def _obey(self, family: Family, answer: Answer) -> None:
        if answer.status == 429:
            self.lane(family).hold(min(answer.retry_after_s or INTERVAL_S[family], LONGEST_HOLD_S))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
        try:
            # A redirect is not followed: it would carry the key elsewhere and a create twice.
            async with self._session.request(
                method, self._base_url + path, params=parameters, json=body, allow_redirects=False
            ) as response:
                text = await self._text(response)
                return understand(Reply(response.status, text, response.headers.get("Retry-After")))
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
        """Calls of the SDK that are under way end by their own timeout."""
        self._threads.shutdown(wait=False)
        if self._session is not None:
            await self._session.close()


def _passes_soon(answer: Answer, error: MarketUnknown) -> bool:
    """A gateway's hiccup, a torn body, or a limit that lifts within seconds."""
    if error.code is RefusalCode.RATE_LIMITED:
        return (answer.retry_after_s or 0) <= LONGEST_BACKOFF_S
    return answer.fault is Fault.TRANSIENT
