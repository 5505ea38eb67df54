"""A process of ours as a child of the daemon: started, and restarted whenever it ends. No tick waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

import autopilot

log = structlog.get_logger(__name__)

AGAIN_AFTER_S = 0.5
AGAIN_AT_MOST_S = 30.0
STEADY_AFTER_S = 60.0
"""A child that has lived so long ended for a new reason: the next one is started without much delay."""
STOP_WITHIN_S = 3.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
"""Variables of the environment; the child gets no keys of the daemon's environment."""


class ChildProcess:
    """``python -m MODULE`` with a pipe as its standard input: it ends when this process does."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], words: Sequence[str]) -> None:
        """``words``: of its lines on standard output, what may be waited for."""
        self._name = name
        self._module = module
        self._arguments = tuple(arguments)
        self._serves = {word: asyncio.Event() for word in words}
        self.process: asyncio.subprocess.Process | None = None

    async def serves(self, what: str) -> None:
        """Wait until it has said that word for the first time."""
        await self._serves[what].wait()

    @asynccontextmanager
    async def kept_running(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep(), name=self._name)
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
                log.warning(f"{self._name}.cannot_start", reason=str(problem))
            delay_s = AGAIN_AFTER_S if loop.time() - began_at > STEADY_AFTER_S else delay_s
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, AGAIN_AT_MOST_S)

    async def _run(self) -> None:
        """Start it, and wait for its end. Raises ``OSError``."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", self._module, *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            | {"PYTHONPATH": str(Path(autopilot.__file__).parents[1])},
            start_new_session=True,  # Ctrl-C is for the daemon, which then ends it
        )
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if (word := line.decode().split()[-1:]) and word[0] in self._serves:
                self._serves[word[0]].set()
        code = await self.process.wait()
        log.warning(f"{self._name}.ended", code=code, consequence="ticks continue; it is restarted")

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
