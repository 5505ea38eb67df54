"""Schedules, in memory."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from autopilot.domain.schedule import Schedule, ScheduleStatus
from autopilot_lab.memory_store.access import MemoryRepository


class MemorySchedules(MemoryRepository):
    __slots__ = ()

    async def save(self, schedule: Schedule) -> None:
        with self._access.write() as tables:
            tables.schedules.put(schedule.id, schedule)

    async def find(self, reference: str, *, owner: int | None = None) -> Schedule | None:
        by_id = self._access.read().schedules.get(reference)
        if by_id is not None and owner in (None, by_id.owner):
            return by_id
        named = [each for each in self._list(owner) if each.spec.name == reference]
        return max(named, key=lambda each: (each.status is not ScheduleStatus.ENDED, _age_order(each)), default=None)

    async def list_live(self) -> tuple[Schedule, ...]:
        return tuple(each for each in self._list(None) if each.status is not ScheduleStatus.ENDED)

    async def list_newest(self, *, limit: int, owner: int | None = None) -> tuple[Schedule, ...]:
        return tuple(reversed(self._list(owner)))[:limit]

    async def list_by_ids(self, ids: Collection[str]) -> tuple[Schedule, ...]:
        return tuple(filter(None, map(self._access.read().schedules.get, dict.fromkeys(ids))))

    async def keep_table(self, schedule_id: str, text: str) -> None:
        with self._access.write() as tables:
            tables.schedule_tables.put(schedule_id, text)

    async def find_table(self, schedule_id: str) -> str | None:
        return self._access.read().schedule_tables.get(schedule_id)

    def _list(self, owner: int | None) -> list[Schedule]:
        """Oldest first."""
        known = self._access.read().schedules.values()
        return sorted((each for each in known if owner in (None, each.owner)), key=_age_order)


def _age_order(schedule: Schedule) -> tuple[datetime, str]:
    return schedule.created_at, schedule.id
