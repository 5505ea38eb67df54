"""What machines read of themselves, over time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select

from autopilot.domain.readings import MachineReading
from autopilot.store.history import jobs_over
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import leases, machine_readings
from autopilot.store.statements import SqlRepository

_reading = machine_readings.c


class SqlMachineReadings(SqlRepository):
    __slots__ = ()

    async def add(self, readings: Iterable[MachineReading]) -> None:
        await self._sql.append(machine_readings, [values_of(machine_readings, reading) for reading in readings])

    async def list_by_lease(self, lease_id: str, *, limit: int) -> tuple[MachineReading, ...]:
        newest = select(machine_readings).where(_reading.lease_id == lease_id).order_by(_reading.at.desc()).limit(limit)
        rows = await self._sql.fetch_all(newest)
        return tuple(record_of(MachineReading, machine_readings, row) for row in rows)[::-1]

    async def forget(self, before: datetime) -> int:
        over = select(leases.c.id).where(leases.c.job_id.in_(jobs_over(before)))
        return (await self._sql.run(delete(machine_readings).where(_reading.lease_id.in_(over)))).rowcount
