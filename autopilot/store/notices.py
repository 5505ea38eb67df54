"""The outbox of notices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import and_, delete, func, select

from autopilot.ports.store.notices import MOST_WAITING
from autopilot.ports.store.records import PendingNotice
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import notices
from autopilot.store.statements import SqlRepository

_notice = notices.c
_ORDER = _notice.due_at, _notice.digest_id, _notice.at, _notice.id


class SqlNotices(SqlRepository):
    __slots__ = ()

    async def save(self, notices_to_save: Iterable[PendingNotice]) -> None:
        rows = [values_of(notices, notice) for notice in notices_to_save]
        await self._sql.upsert(notices, rows)
        for sink in {row["sink"] for row in rows}:
            newest = select(_notice.id).where(_notice.sink == sink).order_by(_notice.at.desc(), _notice.id.desc())
            for (surplus,) in await self._sql.fetch_all(newest.limit(len(rows)).offset(MOST_WAITING)):
                await self._sql.run(delete(notices).where(and_(_notice.sink == sink, _notice.id == surplus)))

    async def list_due(self, sink: str, now: datetime, *, limit: int) -> tuple[PendingNotice, ...]:
        due = select(notices).where(_notice.sink == sink, _notice.due_at <= now).order_by(*_ORDER).limit(limit)
        return tuple(record_of(PendingNotice, notices, row) for row in await self._sql.fetch_all(due))

    async def next_due(self, sink: str) -> datetime | None:
        row = await self._sql.fetch_first(select(func.min(_notice.due_at)).where(_notice.sink == sink))
        return None if row is None else row[0]

    async def remove(self, taken: Iterable[PendingNotice]) -> None:
        for each in taken:
            await self._sql.run(delete(notices).where(and_(_notice.sink == each.sink, _notice.id == each.id)))

    async def forget(self, before: datetime) -> int:
        return (await self._sql.run(delete(notices).where(_notice.at < before))).rowcount
