"""What machines have shown of themselves, over all jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from autopilot.domain.hosts import HostRecord


class HostRecords(Protocol):
    async def save(self, records: Iterable[HostRecord]) -> None:
        """Insert or, by market and machine, update."""
        ...

    async def list(self, *, provider: str | None = None) -> tuple[HostRecord, ...]:
        """Those that were seen last come first."""
        ...

    async def find(self, provider: str, machine_id: str) -> HostRecord | None: ...

    async def forget(self, before: datetime) -> int:
        """Remove those that were last seen before then and are not blocked; returns how many."""
        ...
