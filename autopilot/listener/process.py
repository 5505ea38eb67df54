"""The listener's life: it waits until its daemon leads, takes the port, serves, and closes it once another leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from aiohttp import web

from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.listener.door import Connection, ConnectionLimits, Door, mark_busy

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.5
"""How often it looks whether its daemon still leads, or whether the port is free by now."""
SAY_AGAIN_S = 60.0
DESCRIPTORS = 2048
SPARE_DESCRIPTORS = 150
"""For a burst of connections that are turned away, and for what the program itself has open."""
BACKLOG = 100
CUT_OFF_AFTER_S = 1.0
"""How long a request may go on once the listener closes."""
LINES_A_MINUTE = 10
OOM_SCORE = "500"
"""When memory runs out, the kernel ends the listener before any daemon."""


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    place: MailboxPlace
    host: str
    port: int
    """0: the port that it had before, or any that is free."""
    token: str | None = None
    """Of the daemon whose child this is; None: it serves for whichever daemon of this host leads."""


def run_listener(config: ListenerConfig) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises ``UserError`` for a signing key that is none."""
    os.umask(0o077)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    for name in ("aiohttp.server", "asyncio"):
        logging.getLogger(name).addFilter(_FewLines())
    asyncio.run(_run(config, fit_descriptors(ConnectionLimits())))


def fit_descriptors(limits: ConnectionLimits) -> ConnectionLimits:
    """As many connections as there are file descriptors for, each with a file of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    room = max(soft, wanted) - SPARE_DESCRIPTORS
    return replace(limits, connections=max(8, min(limits.connections, room // 2)))


def end_with(pipe: int) -> None:
    """End this process as soon as the other end of ``pipe`` is closed, even while it is busy."""

    def wait() -> None:
        while os.read(pipe, 1024):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="parent", daemon=True).start()


async def _run(config: ListenerConfig, limits: ConnectionLimits) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    said_at: dict[str, float] = {}

    def say(event: str, **fields: object) -> None:
        """What goes on for long is said once a minute."""
        if loop.time() - said_at.get(event, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            said_at[event] = loop.time()
            log.warning(event, **fields)

    while not stopping.is_set():
        if config.place.is_served_for(config.token):
            try:
                await _serve(config, limits, stopping)
            except OSError as problem:
                consequence = "machines are not heard until it can; it tries on"
                say("listener.cannot_listen", reason=str(problem), consequence=consequence)
        else:
            say("listener.waits", reason="no daemon leads here")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), LOOK_EVERY_S)


async def _serve(config: ListenerConfig, limits: ConnectionLimits, stopping: asyncio.Event) -> None:
    """Until told to stop, or another daemon leads. Raises ``OSError`` when the port cannot be taken."""
    place, loop = config.place, asyncio.get_running_loop()
    store = LocalBlobStore(place.objects, place.read_key(), "")
    app = blob_listener(store)
    app.middlewares.append(mark_busy)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CUT_OFF_AFTER_S)
    await runner.setup()
    door, manager = Door(limits), runner.server
    assert manager is not None, "set-up makes it"
    try:
        port = config.port or place.port() or 0
        server = await loop.create_server(
            lambda: Connection(door, manager, loop=loop), config.host, port, backlog=BACKLOG
        )
        async with server:
            if config.port == 0:
                place.keep_port(server.sockets[0].getsockname()[1])
            print("listening", flush=True)  # noqa: T201 - the daemon that started it waits for this line
            log.info("listener.serves", port=server.sockets[0].getsockname()[1], connections=limits.connections)
            while not stopping.is_set() and place.is_served_for(config.token):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), LOOK_EVERY_S)
            log.info("listener.closes", is_superseded=not stopping.is_set())
    finally:
        await runner.cleanup()


class _FewLines(logging.Filter):
    """Lets a few lines a minute through: whoever connects can cause as many as they like."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        return self._lines <= LINES_A_MINUTE
