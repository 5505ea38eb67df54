"""What machines have shown of themselves, over all jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select

from autopilot.domain.hosts import HostRecord
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import hosts
from autopilot.store.statements import SqlRepository

_host = hosts.c
_ORDER = _host.seen_at.desc(), _host.provider, _host.machine_id


class SqlHosts(SqlRepository):
    __slots__ = ()

    async def save(self, records: Iterable[HostRecord]) -> None:
        await self._sql.upsert(hosts, [values_of(hosts, record) for record in records])

    async def list(self, *, provider: str | None = None) -> tuple[HostRecord, ...]:
        chosen = select(hosts).order_by(*_ORDER)
        if provider is not None:
            chosen = chosen.where(_host.provider == provider)
        return tuple(record_of(HostRecord, hosts, row) for row in await self._sql.fetch_all(chosen))

    async def find(self, provider: str, machine_id: str) -> HostRecord | None:
        chosen = select(hosts).where(_host.provider == provider, _host.machine_id == machine_id)
        rows = await self._sql.fetch_all(chosen)
        return record_of(HostRecord, hosts, rows[0]) if rows else None

    async def forget(self, before: datetime) -> int:
        old = delete(hosts).where(_host.seen_at < before, _host.blocked_at.is_(None))
        return (await self._sql.run(old)).rowcount
