"""A line between two programs on TCP that a test makes slow, silences or cuts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

CHUNK_BYTES = 4096
"""What passes at a time: small, so that all connections have their share of a slow line."""
HELD_BYTES = 64 << 10
"""Of one connection and direction, at the most, before its sender waits."""
DEEP_QUEUE = 128


class _Pipe:
    """One direction of the line, which all connections share."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self.passed = 0
        self._free_at = 0.0

    async def carry(self, size: int) -> None:
        """Wait until so much has passed."""
        self.passed += size
        if self.bytes_per_s is None:
            return
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + size / self.bytes_per_s
        await asyncio.sleep(self._free_at - loop.time())


class Relay:
    """Its own port leads to ``target``. ``a_relay`` and ``relay_beside`` make one; it is used within the loop that runs
    it."""

    def __init__(self, host: str, port: int, shared: Relay | None = None) -> None:
        """``shared``: a relay whose line this one uses as well, with all that passes there."""
        self.target = host, port
        self._there: _Pipe = _Pipe() if shared is None else shared._there
        self._back: _Pipe = _Pipe() if shared is None else shared._back
        self._passes = asyncio.Event()
        self._passes.set()
        self._is_closed = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def passed(self) -> int:
        """Bytes in both directions."""
        return self._there.passed + self._back.passed

    def slow_down(self, mbps: float | None) -> None:
        """So many Mbit/s in each direction, over all connections; None: as fast as it goes."""
        for pipe in (self._there, self._back):
            pipe.bytes_per_s = None if mbps is None else mbps * 1e6 / 8

    def silence(self) -> None:
        """Nothing passes, and neither side hears that, as where a cable is pulled. ``mend`` lets it pass again."""
        self._passes.clear()

    def cut(self) -> None:
        """All connections end, and each new one at once, until ``mend``."""
        self._is_closed = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_closed = False
        self._passes.set()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, limit=HELD_BYTES, backlog=DEEP_QUEUE)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        mine = {writer}
        self._writers.add(writer)
        try:
            if self._is_closed:
                return
            far_reader, far_writer = await asyncio.open_connection(*self.target, limit=HELD_BYTES)
            mine.add(far_writer)
            self._writers.add(far_writer)
            ways = (self._carry(reader, far_writer, self._there), self._carry(far_reader, writer, self._back))
            await asyncio.gather(*ways)
        except OSError:
            pass
        finally:
            self._writers -= mine
            for each in mine:
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pipe: _Pipe) -> None:
        """Until the sender ends it. Raises ``OSError``."""
        while data := await reader.read(CHUNK_BYTES):
            await self._passes.wait()
            await pipe.carry(len(data))
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._passes.set()
        self.cut()
        # The server itself does not wait for them before Python 3.12, and the loop's end would cancel each with a word.
        if self._calls:
            await asyncio.wait(self._calls, timeout=5)


@asynccontextmanager
async def a_relay(host: str, port: int, shared: Relay | None = None) -> AsyncIterator[Relay]:
    made = Relay(host, port, shared)
    await made._start()
    try:
        yield made
    finally:
        await made._close()


class RelayBeside:
    """A relay in a thread of its own, for tests without a loop."""

    def __init__(self, relay: Relay, loop: asyncio.AbstractEventLoop) -> None:
        self._relay = relay
        self._loop = loop

    @property
    def port(self) -> int:
        return self._relay.port

    @property
    def passed(self) -> int:
        return self._relay.passed

    def slow_down(self, mbps: float | None) -> None:
        self._loop.call_soon_threadsafe(self._relay.slow_down, mbps)

    def silence(self) -> None:
        self._loop.call_soon_threadsafe(self._relay.silence)

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._relay.cut)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._relay.mend)


@contextmanager
def relay_beside(host: str, port: int) -> Iterator[RelayBeside]:
    made: list[RelayBeside] = []
    is_ready, is_over = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with a_relay(host, port) as relay:
            made.append(RelayBeside(relay, asyncio.get_running_loop()))
            is_ready.set()
            await is_over.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    is_ready.wait()
    try:
        yield made[0]
    finally:
        made[0]._loop.call_soon_threadsafe(is_over.set)
        thread.join()
