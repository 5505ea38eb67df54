"""Requests to the daemon in asyncio, and its answers as models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from autopilot.answers.models.base import Answer, Asked, Query
from autopilot.client.answer import read_answer
from autopilot.client.connections import explain, make_login, make_tls
from autopilot.client.errors import Unreachable
from autopilot.client.paths import fill_path
from autopilot.client.sent_part import SentPart
from autopilot.client.tries import Tries, make_key_header
from autopilot.config.daemon_address import DaemonAddress

Model = TypeVar("Model", bound=Answer)

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
        headers = make_key_header() if acts_once else {}
        tries = Tries(may_repeat=acts_once or method == "GET", waits_for_start=True)
        while True:
            try:
                return await self._ask(method, fill_path(path, names), answer, body, query, headers, upload)
            except Unreachable as problem:
                pause_s = tries.pause_after(problem)
            await asyncio.sleep(pause_s)

    async def stream(self, call: str, query: Query, last_id: str, *names: str) -> AsyncIterator[tuple[str, str, str]]:
        """(id, name, data) of each event until the daemon ends the stream. Raises ``ApiError``, ``Unreachable``."""
        path = fill_path(call.partition(" ")[2], names)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        try:
            async with self._open().get(self._url(path), params=_params(query), headers=headers) as response:
                if response.status >= 400:
                    read_answer(response.status, await response.read())
                fields: dict[str, str] = {}
                async for raw in response.content:
                    name, _, value = raw.decode().rstrip("\r\n").partition(":")
                    if name:
                        fields[name] = value.removeprefix(" ")
                    elif "data" in fields:
                        yield fields.get("id", ""), fields.get("event", ""), fields["data"]
                        fields = {}
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._explain(error) from error

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
            raise self._explain(error) from error
        if status >= 400:
            read_answer(status, raw)
        return answer.model_validate_json(raw)

    def _open(self) -> aiohttp.ClientSession:
        """Raises ``UserError``."""
        if self._session is None:
            connector: aiohttp.BaseConnector
            if self._address.socket is not None:
                connector = aiohttp.UnixConnector(str(self._address.socket))
            else:
                connector = aiohttp.TCPConnector(ssl=make_tls(self._address) or True)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=make_login(self._address), timeout=_WITHIN, read_bufsize=_LINE_BYTES
            )
        return self._session

    def _url(self, path: str) -> URL:
        return URL((self._address.url or "http://localhost") + path, encoded=True)

    def _explain(self, error: Exception) -> Unreachable:
        """aiohttp wraps what has kept it from connecting."""
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
        within_s = _WITHIN.sock_connect if isinstance(error, aiohttp.ConnectionTimeoutError) else _WITHIN.sock_read
        return explain(self._address, cause, within_s or 0)


def _params(query: Query | None) -> dict[str, Any]:
    if query is None:
        return {}
    given = query.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
