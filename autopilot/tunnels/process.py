"""The tunnels' process: it reads which machines are wanted, and writes how their connections are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from autopilot.tunnels.board import read_wanted, write_states
from autopilot.tunnels.keeper import Keeper
from autopilot.tunnels.place import TunnelsPlace

LOOK_EVERY_S = 1.0
WRITE_EVERY_S = 5.0
"""Even if nothing has changed: an old file means that this process has stopped."""


def run_tunnels(place: TunnelsPlace, parent: int | None = None) -> None:
    """Until SIGTERM or Ctrl-C. ``parent``: a pipe; once its other end is closed, this ends as well."""
    os.umask(0o077)
    asyncio.run(_run(place, parent))


async def _run(place: TunnelsPlace, parent: int | None) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    if parent is not None:
        loop.add_reader(parent, _end_with, parent, stopping)
    keeper = Keeper(place)
    written_at = -WRITE_EVERY_S
    try:
        while not stopping.is_set():
            await keeper.follow(await asyncio.to_thread(read_wanted, place))
            if loop.time() - written_at >= WRITE_EVERY_S:
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
