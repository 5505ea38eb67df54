"""Ticks continue regardless of changes to the wall clock, which the scheduler uses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from autopilot.service.main import _tick_until


@dataclass
class Counting:
    """As much of a daemon as ticks need; nothing wakes it."""

    stopping: asyncio.Event
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: int = 0
    ping: None = None

    @property
    def engine(self) -> Counting:
        return self

    @property
    def metrics(self) -> Counting:
        return self

    def note_tick(self, took_s: float, *, is_good: bool) -> None:
        assert took_s >= 0
        assert is_good

    async def tick(self) -> None:
        self.ticks += 1
        if self.ticks == 3:
            self.stopping.set()


async def test_a_scheduler_that_never_wakes_it_does_not_keep_it_from_ticking() -> None:
    stopping = asyncio.Event()
    running, seen = Counting(stopping), list[int]()
    await _tick_until(stopping, cast(Any, running), 0.01, lambda: seen.append(1))
    assert running.ticks == len(seen) == 3
