"""How the markets' answers differ from what their adapters were written for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import and_, delete, select

from autopilot.domain.drift import Drift
from autopilot.ports.store.drifts import MOST_DRIFTS
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import drifts
from autopilot.store.statements import SqlRepository

_drift = drifts.c
_ORDER = _drift.is_read.desc(), _drift.last_seen_at.desc(), *drifts.primary_key.columns


class SqlDrifts(SqlRepository):
    __slots__ = ()

    async def save(self, drifts_to_save: Iterable[Drift]) -> None:
        await self._sql.upsert(drifts, [values_of(drifts, drift) for drift in drifts_to_save])
        surplus = select(*drifts.primary_key.columns).order_by(*_ORDER).offset(MOST_DRIFTS)
        for key in await self._sql.fetch_all(surplus):
            is_that = (column == value for column, value in zip(drifts.primary_key.columns, key, strict=True))
            await self._sql.run(delete(drifts).where(and_(*is_that)))

    async def list(self, *, provider: str | None = None, money: bool = False) -> tuple[Drift, ...]:
        chosen = select(drifts).order_by(*_ORDER)
        if provider is not None:
            chosen = chosen.where(_drift.provider == provider)
        if money:
            chosen = chosen.where(_drift.is_money)
        return tuple(record_of(Drift, drifts, row) for row in await self._sql.fetch_all(chosen))

    async def forget(self, before: datetime) -> int:
        return (await self._sql.run(delete(drifts).where(_drift.last_seen_at < before))).rowcount
