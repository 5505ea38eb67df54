"""HTTP without a socket: bytes to the API's own server and back, in virtual time.

The caller survives when the daemon is killed or frozen, and waits for an answer that may never come.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.simulation.virtual.loop import Process, VirtualLoop

PATIENCE_S = 120.0
"""When a caller gives up."""
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Heard:
    status: int
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """Empty if the answer is none in JSON."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class _Pipe(asyncio.Transport):
    """The daemon's end of one connection."""

    def __init__(self, end: Callable[[], object]) -> None:
        super().__init__()
        self.received = bytearray()
        self._end = end
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.received += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._end()

    abort = close

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """It has no socket, so no caller is a user of this machine."""
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Line:
    """The way to one daemon's API, for as long as that daemon lives."""

    def __init__(self, loop: VirtualLoop, process: Process, serve: web.Server) -> None:
        self._loop = loop
        self._process = process
        self._serve = serve

    async def call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        hangs_up_after_s: float | None = None,
    ) -> Heard | None:
        """The answer, or None if none comes: the daemon has died, or the caller has hung up."""
        loop, ended = self._loop, asyncio.Event()
        pipe = _Pipe(lambda: loop.after(0, ended.set))
        lines = [f"{method} {path} HTTP/1.1", "Host: daemon", "Connection: close", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sent = "\r\n".join(lines).encode("utf-8", "replace") + _END + body
        protocol = None

        def arrive() -> None:
            nonlocal protocol
            protocol = self._serve()
            protocol.connection_made(pipe)
            protocol.data_received(sent)

        def hang_up() -> None:
            pipe._is_closing = True
            if protocol is None:
                return
            handler = protocol._task_handler.get_coro() if protocol._task_handler else None
            if inspect.iscoroutine(handler) and inspect.getcoroutinestate(handler) == inspect.CORO_CREATED:
                loop.call_soon(hang_up, context=within)  # a real loop reads the end only after the handler has begun
            else:
                protocol.connection_lost(None)

        within = self._process.context.copy()
        loop.call_soon(arrive, context=within)
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE_S if hangs_up_after_s is None else hangs_up_after_s)
        except TimeoutError:
            loop.call_soon(hang_up, context=within)
            return None
        loop.call_soon(hang_up, context=within)
        return _parsed(bytes(pipe.received))


def _parsed(data: bytes) -> Heard | None:
    head, _, body = data.partition(_END)
    words = head.split(b" ", 2)
    return Heard(int(words[1]), body) if len(words) > 1 and words[1].isdigit() else None
