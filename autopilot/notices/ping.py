"""A sign of life for a dead man's switch elsewhere, which raises the alarm when it stays away.

A start signal when the daemon begins, a success after every so many good ticks, and a failure once as many ticks in a
row were not good. A tick is good when it ended and had read every market.
"""

from __future__ import annotations

import asyncio

import structlog

from autopilot.notices.message import SinkFailed
from autopilot.notices.web import call

log = structlog.get_logger(__name__)

START, SUCCESS, FAIL = "/start", "", "/fail"
"""What follows the address, as healthchecks.io and its like have it."""


class DeadManSwitch:
    def __init__(self, url: str, every: int, *, local: bool = False) -> None:
        """``every``: good ticks to a signal."""
        self._url = url.rstrip("/")
        self._every = every
        self._local = local
        self._good = 0
        self._bad = 0
        self._next: str | None = START
        self._wake = asyncio.Event()
        self._wake.set()

    def note(self, *, is_good: bool) -> None:
        """One tick more. Never waits."""
        if is_good:
            self._good, self._bad = self._good + 1, 0
        else:
            self._bad += 1
        if is_good and self._good >= self._every:
            self._good = 0
            self._signal(SUCCESS)
        elif self._bad == self._every:
            self._good = 0
            self._signal(FAIL)

    def _signal(self, signal: str) -> None:
        self._next = signal
        self._wake.set()

    async def run(self) -> None:
        """Send what was signalled, the newest alone, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            signal, self._next = self._next, None
            if signal is not None:
                await self._send(signal)

    async def _send(self, signal: str) -> None:
        try:
            await call(self._url + signal, b"", {"user-agent": "autopilot"}, local=self._local)
        except SinkFailed as problem:
            log.warning("ping.failed", signal=signal.strip("/") or "success", reason=str(problem))
