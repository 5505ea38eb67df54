"""The outbox of notices, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.ports.store.notices import MOST_WAITING
from autopilot.ports.store.records import PendingNotice
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryNotices(MemoryRepository):
    __slots__ = ()

    async def save(self, notices: Iterable[PendingNotice]) -> None:
        with self._access.write() as tables:
            saved = list(notices)
            for notice in saved:
                tables.notices.put((notice.id, notice.sink), notice)
            for sink in {notice.sink for notice in saved}:
                for surplus in sorted(self._of(sink), key=_age, reverse=True)[MOST_WAITING:]:
                    tables.notices.remove((surplus.id, surplus.sink))

    async def list_due(self, sink: str, now: datetime, *, limit: int) -> tuple[PendingNotice, ...]:
        return tuple(sorted((notice for notice in self._of(sink) if notice.due_at <= now), key=_order)[:limit])

    async def next_due(self, sink: str) -> datetime | None:
        return min((notice.due_at for notice in self._of(sink)), default=None)

    async def remove(self, notices: Iterable[PendingNotice]) -> None:
        with self._access.write() as tables:
            for notice in notices:
                if tables.notices.get((notice.id, notice.sink)) is not None:
                    tables.notices.remove((notice.id, notice.sink))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            old = [notice for notice in tables.notices.values() if notice.at < before]
            for notice in old:
                tables.notices.remove((notice.id, notice.sink))
            return len(old)

    def _of(self, sink: str) -> list[PendingNotice]:
        return [notice for notice in self._access.read().notices.values() if notice.sink == sink]


def _age(notice: PendingNotice) -> tuple[datetime, str]:
    return notice.at, notice.id


def _order(notice: PendingNotice) -> tuple[datetime, str, datetime, str]:
    return notice.due_at, notice.digest_id, notice.at, notice.id
