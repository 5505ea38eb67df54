"""What machines have shown of themselves, over all jobs, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.domain.hosts import HostRecord
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryHosts(MemoryRepository):
    __slots__ = ()

    async def save(self, records: Iterable[HostRecord]) -> None:
        with self._access.write() as tables:
            for record in records:
                tables.hosts.put(record.key, record)

    async def list(self, *, provider: str | None = None) -> tuple[HostRecord, ...]:
        kept = sorted(self._access.read().hosts.values(), key=lambda each: (-each.seen_at.timestamp(), each.key))
        return tuple(record for record in kept if provider in (None, record.provider))

    async def find(self, provider: str, machine_id: str) -> HostRecord | None:
        return self._access.read().hosts.get((provider, machine_id))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            old = [each for each in tables.hosts.values() if each.seen_at < before and each.blocked_at is None]
            for each in old:
                tables.hosts.remove(each.key)
            return len(old)
