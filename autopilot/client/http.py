"""Requests to the daemon, and its answers as models."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from autopilot.answers.models.base import Asked, Problem, Query
from autopilot.client.errors import ApiError, Unreachable
from autopilot.client.sent_part import SentPart
from autopilot.clock import SystemClock
from autopilot.config.daemon_address import DaemonAddress
from autopilot.ids import UlidIds

Model = TypeVar("Model")

AGAIN_AFTER_S = (1.0, 3.0, 6.0)
"""Where an answer was lost of a request that acts once, or that only reads."""
_WITHIN = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)
_LINE_BYTES = 4 << 20
"""Of a stream: a chunk of output is on one line."""


class Http:
    def __init__(self, address: DaemonAddress) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        call: str,
        answer: type[Model],
        *names: str,
        body: Asked | None = None,
        query: Query | None = None,
        upload: SentPart | None = None,
        acts_once: bool = False,
    ) -> Model:
        """``call``: ``POST /v1/jobs/{ref}/stop``; ``names`` fill it. ``upload``: in the place of a body.

        Raises ``ApiError``, ``Unreachable``.
        """
        method, _, path = call.partition(" ")
        headers = {"Idempotency-Key": UlidIds(SystemClock()).new()} if acts_once else {}
        may_repeat = acts_once or method == "GET"
        for pause_s in (*(AGAIN_AFTER_S if may_repeat else ()), None):
            try:
                return await self._ask(method, _fill(path, names), answer, body, query, headers, upload)
            except Unreachable:
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("the last try answers or raises")

    async def stream(self, call: str, query: Query, last_id: str, *names: str) -> AsyncIterator[tuple[str, str, str]]:
        """(id, name, data) of each event until the daemon ends the stream. Raises ``ApiError``, ``Unreachable``."""
        path = _fill(call.partition(" ")[2], names)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        try:
            async with self._open().get(self._url(path), params=_params(query), headers=headers) as response:
                if response.status >= 400:
                    raise _problem_of(response.status, await response.read())
                fields: dict[str, str] = {}
                async for raw in response.content:
                    name, _, value = raw.decode().rstrip("\r\n").partition(":")
                    if name:
                        fields[name] = value.removeprefix(" ")
                    elif "data" in fields:
                        yield fields.get("id", ""), fields.get("event", ""), fields["data"]
                        fields = {}
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _ask(
        self,
        method: str,
        path: str,
        answer: type[Model],
        body: Asked | None,
        query: Query | None,
        headers: Mapping[str, str],
        upload: SentPart | None,
    ) -> Model:
        data: str | AsyncIterator[bytes] | None = None
        sent = dict(headers)
        if body is not None:
            data, sent["Content-Type"] = body.model_dump_json(exclude_unset=True), "application/json"
        if upload is not None:
            data, sent["Content-Type"] = upload.blocks(), "application/octet-stream"
            sent["Content-Length"] = str(upload.size)
        try:
            async with self._open().request(
                method, self._url(path), data=data, params=_params(query), headers=sent
            ) as response:
                status, raw = response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error
        if status >= 400:
            problem = _problem_of(status, raw)
            raise Unreachable(problem.message, hint=problem.hint) if status == 503 and _is_away(problem) else problem
        return TypeAdapter(answer).validate_json(raw)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            login = {"Authorization": f"Bearer {self._address.token}"} if self._address.token else {}
            connector: aiohttp.BaseConnector
            if self._address.socket is not None:
                connector = aiohttp.UnixConnector(str(self._address.socket))
            else:
                own = self._address.ca_file
                connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=own) if own else True)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=login, timeout=_WITHIN, read_bufsize=_LINE_BYTES
            )
        return self._session

    def _url(self, path: str) -> URL:
        return URL((self._address.url or "http://localhost") + path, encoded=True)

    def _unreachable(self, error: Exception) -> Unreachable:
        where = self._address.url or str(self._address.socket)
        hint = "start it: autopilot serve" if self._address.socket is not None else "is the address right?"
        return Unreachable(f"no daemon answers at {where}: {error or type(error).__name__}", hint=hint)


def _fill(path: str, names: tuple[str, ...]) -> str:
    for name in names:
        before, _, rest = path.partition("{")
        path = before + quote(name, safe="") + rest.partition("}")[2]
    return path


def _params(query: Query | None) -> dict[str, Any]:
    if query is None:
        return {}
    given = query.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def _is_away(error: ApiError) -> bool:
    return error.reason == "daemon_unavailable"


def _problem_of(status: int, raw: bytes) -> ApiError:
    try:
        return ApiError(Problem.model_validate_json(raw))
    except ValidationError:
        told = Problem(title="", status=status, reason="unknown", detail=f"the daemon answered HTTP {status}", hint="")
        return ApiError(told)
