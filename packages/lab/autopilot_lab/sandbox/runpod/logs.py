"""A pod's logs: a stream of server-sent events (v2), and a snapshot of both sources."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from aiohttp import web

from autopilot_lab.sandbox.runpod.pods import LogLine, Pod, Status
from autopilot_lab.sandbox.runpod.refusals import invalid
from autopilot_lab.sandbox.runpod.rest_rows import seconds
from autopilot_lab.sandbox.runpod.rows import Json
from autopilot_lab.sandbox.wire import Host

SOURCES = ("container", "system")
_POLL_S, _HEARTBEAT_S = 0.1, 15.0
_DEFAULT_TAIL, _MAX_TAIL = 100, 5000


@dataclass(frozen=True)
class LogQuery:
    """Which lines. Those after ``last_seq`` if it is known, else the last ``tail`` ones since ``since``."""

    sources: tuple[str, ...] = SOURCES
    tail: int = _DEFAULT_TAIL
    since: datetime | None = None
    last_seq: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], last_event_id: str | None) -> Self:
        """Raises ``PodRefused``."""
        source = query.get("source")
        if source is not None and source not in SOURCES:
            raise invalid("source must be container or system")
        tail = query.get("tail", str(_DEFAULT_TAIL))
        if not (tail.isascii() and tail.isdigit() and int(tail) <= _MAX_TAIL):
            raise invalid(f"tail must be a whole number from 0 to {_MAX_TAIL}")
        return cls(SOURCES if source is None else (source,), int(tail), _since(query.get("since")), _seq(last_event_id))

    def first_lines(self, log: list[LogLine]) -> list[LogLine]:
        lines = [line for line in log if line.source in self.sources]
        if self.last_seq is not None:
            return [line for line in lines if line.seq > self.last_seq]
        if self.since is not None:
            lines = [line for line in lines if line.at >= self.since]
        return lines[-self.tail :] if self.tail else []


async def stream(
    request: web.Request, pod: Pod, wish: LogQuery, host: Host, stopping: asyncio.Event, headers: Mapping[str, str]
) -> web.StreamResponse:
    """What there is, then what comes, until the pod is terminated or the caller goes away."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **headers})
    await response.prepare(request)
    with contextlib.suppress(ConnectionResetError):
        await _write_events(response, pod, wish, host, stopping)
    return response


async def _write_events(
    response: web.StreamResponse, pod: Pod, wish: LogQuery, host: Host, stopping: asyncio.Event
) -> None:
    lines, sent = wish.first_lines(pod.log), len(pod.log)
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    while True:
        for line in lines:
            await response.write(_event(line))
            quiet_since = loop.time()
        if pod.status is Status.TERMINATED or stopping.is_set():
            return
        if loop.time() - quiet_since >= _HEARTBEAT_S:
            await response.write(b": heartbeat\n\n")
            quiet_since = loop.time()
        await asyncio.sleep(_POLL_S)
        host.synchronise()
        lines = [line for line in pod.log[sent:] if line.source in wish.sources]
        sent = len(pod.log)


def snapshot(pod: Pod) -> Json:
    return {
        source: [f"{seconds(line.at)} {line.text}" for line in pod.log if line.source == source] for source in SOURCES
    }


def _event(line: LogLine) -> bytes:
    at = seconds(line.at)
    data = json.dumps({"ts": at, "source": line.source, "line": line.text}, separators=(",", ":"))
    return f"id: {at}/{line.seq:012d}\ndata: {data}\n\n".encode()


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise invalid("since must be a time as in RFC 3339") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _seq(last_event_id: str | None) -> int | None:
    number = (last_event_id or "").rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else None
