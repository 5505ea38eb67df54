"""The outbox: what people are to be informed of, until each sink has taken it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from autopilot.ports.store.records import PendingNotice

MOST_WAITING = 1000
"""Notices that wait for one sink. Beyond these the oldest go."""


class Notices(Protocol):
    """One row for each notice and sink. Lists are in the order in which they are due."""

    async def save(self, notices: Iterable[PendingNotice]) -> None:
        """Insert or, by id and sink, update; beyond ``MOST_WAITING`` for a sink the oldest go."""
        ...

    async def list_due(self, sink: str, now: datetime, *, limit: int) -> tuple[PendingNotice, ...]:
        """Those that may be sent by now. The parts of one digest stand side by side."""
        ...

    async def next_due(self, sink: str) -> datetime | None:
        """When the first of them may be sent; None when none waits."""
        ...

    async def remove(self, notices: Iterable[PendingNotice]) -> None:
        """Those that the sink has taken."""
        ...

    async def forget(self, before: datetime) -> int:
        """Remove those that came up before then, for any sink; returns how many."""
        ...
