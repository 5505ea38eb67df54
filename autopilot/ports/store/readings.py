"""What machines read of themselves, over time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from autopilot.domain.readings import MachineReading


class MachineReadings(Protocol):
    async def add(self, readings: Iterable[MachineReading]) -> None:
        """One per lease and instant; a second one is ignored."""
        ...

    async def list_by_lease(self, lease_id: str, *, limit: int) -> tuple[MachineReading, ...]:
        """The newest ``limit`` readings, oldest first."""
        ...

    async def forget(self, before: datetime) -> int:
        """Remove the readings of jobs that had ended by then; returns how many."""
        ...
