"""What machines read of themselves, over time, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.domain.readings import MachineReading
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.history import jobs_over


class MemoryMachineReadings(MemoryRepository):
    __slots__ = ()

    async def add(self, readings: Iterable[MachineReading]) -> None:
        with self._access.write() as tables:
            for reading in readings:
                tables.add_reading(reading)

    async def list_by_lease(self, lease_id: str, *, limit: int) -> tuple[MachineReading, ...]:
        found = self._access.read().readings.get(lease_id) or ()
        return tuple(sorted(found, key=lambda reading: reading.at))[-limit:]

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            forgotten = 0
            for job_id in jobs_over(tables, before):
                for lease_id in tables.leases_by_job.get(job_id) or ():
                    forgotten += len(tables.readings.get(lease_id) or ())
                    tables.readings.remove(lease_id)
            return forgotten
