"""The tunnels' process: it reads which machines are wanted, and writes how their connections are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass

import structlog

from autopilot.blobs.place import MAILBOX, MailboxPlace
from autopilot.tunnels.board import read_dialled, write_states
from autopilot.tunnels.keeper import Keeper

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
WRITE_EVERY_S = 5.0
"""Even where nothing has changed: a file that grows old says that nobody dials."""


@dataclass(frozen=True, slots=True)
class TunnelsConfig:
    place: MailboxPlace
    listener: tuple[str, int]
    """Where the mailbox listens. Port 0: the one that it had last."""
    token: str | None = None
    """Of the daemon whose child this is; None: for whichever daemon of this host leads."""


def run_tunnels(config: TunnelsConfig, parent: int | None = None) -> None:
    """Until SIGTERM or Ctrl-C. ``parent``: a pipe; once its other end is closed, this ends as well."""
    os.umask(0o077)
    asyncio.run(_run(config, parent))


async def _run(config: TunnelsConfig, parent: int | None) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    if parent is not None:
        loop.add_reader(parent, _end_with, parent, stopping)
    place = config.place
    keeper = Keeper(place, lambda: _target(config))
    written_at = -WRITE_EVERY_S
    try:
        while not stopping.is_set():
            is_ours = await asyncio.to_thread(place.is_served_for, config.token)
            await keeper.follow(await asyncio.to_thread(read_dialled, place) if is_ours else ())
            if is_ours and loop.time() - written_at >= WRITE_EVERY_S:
                written_at = loop.time()
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(write_states, place, keeper.states())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stopping.wait()
    finally:
        await keeper.close()


def _end_with(pipe: int, stopping: asyncio.Event) -> None:
    if not os.read(pipe, 1024):
        asyncio.get_running_loop().remove_reader(pipe)
        stopping.set()


def _target(config: TunnelsConfig) -> str | None:
    host, port = config.listener
    known = port or config.place.port(MAILBOX)
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104 - compared
    return None if known is None else f"{host}:{known}"
