"""Requests to the daemon in asyncio, and its answers as models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import aiohttp
from pydantic import TypeAdapter

from autopilot.answers.models.base import Asked, Query
from autopilot.client.answer import MOST_BYTES, read_answer
from autopilot.client.errors import Unreachable
from autopilot.client.exchange import DaemonExchange, read_whole
from autopilot.client.paths import fill_path
from autopilot.client.sent_part import SentPart
from autopilot.client.tries import Tries, make_key_header
from autopilot.config.daemon_address import DaemonAddress

Model = TypeVar("Model")

_WITHIN = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)


class Http:
    def __init__(self, address: DaemonAddress) -> None:
        self._exchange = DaemonExchange(address, _WITHIN)

    async def close(self) -> None:
        await self._exchange.close()

    async def ask(
        self,
        call: str,
        answer: type[Model],
        *names: str,
        body: Asked | None = None,
        query: Query | None = None,
        upload: bytes | SentPart | None = None,
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
        async with self._exchange.open("GET", path, headers, query=_params(query)) as response:
            if response.status >= 400:
                read_answer(response.status, await read_whole(response, MOST_BYTES))
            fields: dict[str, str] = {}
            async for raw in response.content:
                name, _, value = raw.decode().rstrip("\r\n").partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
                elif "data" in fields:
                    yield fields.get("id", ""), fields.get("event", ""), fields["data"]
                    fields = {}

    async def _ask(
        self,
        method: str,
        path: str,
        answer: type[Model],
        body: Asked | None,
        query: Query | None,
        headers: Mapping[str, str],
        upload: bytes | SentPart | None,
    ) -> Model:
        data: bytes | AsyncIterator[bytes] | None = None
        sent = dict(headers)
        if body is not None:
            data, sent["Content-Type"] = body.model_dump_json(exclude_unset=True).encode(), "application/json"
        if upload is not None:
            sent["Content-Type"] = "application/octet-stream"
            data = upload if isinstance(upload, bytes) else upload.blocks()
            sent["Content-Length"] = str(len(upload) if isinstance(upload, bytes) else upload.size)
        async with self._exchange.open(method, path, sent, query=_params(query), data=data) as response:
            status, raw = response.status, await read_whole(response, MOST_BYTES)
        if status >= 400:
            read_answer(status, raw)
        return TypeAdapter(answer).validate_json(raw)


def _params(query: Query | None) -> dict[str, str]:
    if query is None:
        return {}
    given = query.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
