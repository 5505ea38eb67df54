"""The listener as a child of the daemon: started, and started anew whenever it ends. No tick waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

import autopilot
from autopilot.blobs.place import MailboxPlace
from autopilot.config.settings import Settings

log = structlog.get_logger(__name__)

AGAIN_AFTER_S = 0.5
AGAIN_AT_MOST_S = 30.0
STEADY_AFTER_S = 60.0
"""A child that has lived so long ended for a new reason: the next one is started without much delay."""
STOP_WITHIN_S = 3.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
"""Of the environment; what the daemon's own holds of keys is not the child's concern."""


class ListenerChild:
    """``autopilot.listener`` as a process whose standard input is a pipe: it ends when this process does."""

    def __init__(self, settings: Settings, place: MailboxPlace, token: str) -> None:
        host, _, port = settings.blobs.listen.rpartition(":")
        self._arguments = [
            *("--place", str(place.root), "--host", host, "--port", port, "--token", token),
            *("--log-format", settings.log.format, "--log-level", settings.log.level),
        ]
        self.serves = asyncio.Event()
        """Set once it has taken its port for the first time."""
        self.process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def kept_running(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep(), name="listener")
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            await self._end()

    async def _keep(self) -> None:
        loop, delay_s = asyncio.get_running_loop(), AGAIN_AFTER_S
        while True:
            began_at = loop.time()
            try:
                await self._run()
            except OSError as problem:  # no process, no memory: the daemon goes on
                log.warning("listener.cannot_start", reason=str(problem))
            delay_s = AGAIN_AFTER_S if loop.time() - began_at > STEADY_AFTER_S else delay_s
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, AGAIN_AT_MOST_S)

    async def _run(self) -> None:
        """Start it, and wait for its end. Raises ``OSError``."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "autopilot.listener", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            | {"PYTHONPATH": str(Path(autopilot.__file__).parents[1])},
            start_new_session=True,  # Ctrl-C is for the daemon, which then ends it
        )
        assert self.process.stdout is not None
        while await self.process.stdout.readline():
            self.serves.set()
        code = await self.process.wait()
        log.warning("listener.ended", code=code, consequence="ticks go on; it is started anew")

    async def _end(self) -> None:
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
