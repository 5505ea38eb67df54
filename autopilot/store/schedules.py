"""Schedules: job files that are submitted again and again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, case, select

from autopilot.domain.schedule import Schedule, ScheduleStatus
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import schedule_tables, schedules
from autopilot.store.statements import SqlRepository

_has_ended = schedules.c.status == ScheduleStatus.ENDED


class SqlSchedules(SqlRepository):
    __slots__ = ()

    async def save(self, schedule: Schedule) -> None:
        await self._sql.upsert(schedules, [values_of(schedules, schedule, name=schedule.spec.name)])

    async def find(self, reference: str, *, owner: int | None = None) -> Schedule | None:
        by_id = await self._select(_of_owner(owner).where(schedules.c.id == reference))
        if by_id:
            return by_id[0]
        named = _of_owner(owner).where(schedules.c.name == reference)
        newest = case((_has_ended, 1), else_=0), schedules.c.created_at.desc(), schedules.c.id.desc()
        by_name = await self._select(named.order_by(*newest).limit(1))
        return by_name[0] if by_name else None

    async def list_live(self) -> tuple[Schedule, ...]:
        return await self._select(select(schedules).where(~_has_ended).order_by(schedules.c.created_at, schedules.c.id))

    async def list_newest(self, *, limit: int, owner: int | None = None) -> tuple[Schedule, ...]:
        newest = _of_owner(owner).order_by(schedules.c.created_at.desc(), schedules.c.id.desc())
        return await self._select(newest.limit(limit))

    async def list_by_ids(self, ids: Collection[str]) -> tuple[Schedule, ...]:
        return await self._select(select(schedules).where(schedules.c.id.in_(ids)))

    async def keep_table(self, schedule_id: str, text: str) -> None:
        await self._sql.append(schedule_tables, [{"schedule_id": schedule_id, "text": text}])

    async def find_table(self, schedule_id: str) -> str | None:
        chosen = select(schedule_tables.c.text).where(schedule_tables.c.schedule_id == schedule_id)
        return next((text for (text,) in await self._sql.fetch_all(chosen)), None)

    async def _select(self, chosen: Any) -> tuple[Schedule, ...]:
        return tuple(record_of(Schedule, schedules, row) for row in await self._sql.fetch_all(chosen))


def _of_owner(owner: int | None) -> Select[Any]:
    return select(schedules) if owner is None else select(schedules).where(schedules.c.owner == owner)
