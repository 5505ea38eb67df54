"""Keeps this computer awake while a job has a machine, where machines can save their work nowhere but here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog

from autopilot.system import find_awake_command

log = structlog.get_logger(__name__)

LOOKS_APART_S = 5.0
REFUSED_FOR_S = 300.0
"""A tool that ends by itself is refused its wish: it is tried again after so long."""


class Awake:
    """The system's tool as a child that is there exactly while it is needed. It ends with this process: its standard
    input is a pipe of ours."""

    def __init__(self, is_needed: Callable[[], bool], command: Sequence[str] | None, apart_s: float = LOOKS_APART_S):
        """``command``: None where the system has no such tool."""
        self._is_needed = is_needed
        self._command = command
        self._apart_s = apart_s
        self._has_told = False
        self._not_before = 0.0
        self.process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep(), name="awake")
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            await self._end()

    async def _keep(self) -> None:
        while True:
            try:
                await self._look()
            except OSError as problem:
                self._tell(str(problem))
            await asyncio.sleep(self._apart_s)

    async def _look(self) -> None:
        """Raises ``OSError``."""
        if not self._is_needed():
            await self._end()
        elif self.process is None:
            await self._begin()
        elif self.process.returncode is not None:
            self._tell(f"{self._command and self._command[0]} ended with {self.process.returncode}")
            self.process = None

    async def _begin(self) -> None:
        """Raises ``OSError``."""
        if self._command is None:
            self._tell("there is neither systemd-inhibit nor caffeinate here")
            return
        if asyncio.get_running_loop().time() < self._not_before:
            return
        none = asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=none, stderr=none, start_new_session=True
        )

    async def _end(self) -> None:
        process, self.process = self.process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()

    def _tell(self, reason: str) -> None:
        self._not_before = asyncio.get_running_loop().time() + REFUSED_FOR_S
        if not self._has_told:
            self._has_told = True
            log.warning(
                "awake.not_kept",
                reason=reason,
                consequence="this computer may fall asleep while a job has a machine; what is not saved here is lost",
                remedy="keep it awake yourself, or set blobs.url to a bucket",
            )


@asynccontextmanager
async def keeping_awake(is_needed: Callable[[], bool]) -> AsyncIterator[None]:
    async with Awake(is_needed, find_awake_command()).hold():
        yield
