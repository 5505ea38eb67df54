"""The market's history: prices as seen, put together by the hour once they are old, and in the end forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, true

from autopilot.domain.prices import PriceObservation
from autopilot.store.history import SqlNotes
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import price_observations
from autopilot.store.statements import SqlRepository, Statements
from autopilot.store.thinning import HOUR, THINNED_UNTIL, by_the_hour, hour_of

_price = price_observations.c


class SqlPrices(SqlRepository):
    __slots__ = ("_notes",)

    def __init__(self, sql: Statements, notes: SqlNotes) -> None:
        super().__init__(sql)
        self._notes = notes

    async def add(self, observations: Iterable[PriceObservation]) -> None:
        await self._sql.append(price_observations, [values_of(price_observations, seen) for seen in observations])

    async def list_by_gpu(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        chosen = select(price_observations).where(
            _price.gpu == gpu, _price.observed_at >= since, _price.observed_at < until
        )
        if provider is not None:
            chosen = chosen.where(_price.provider == provider)
        return await self._select(
            chosen.order_by(_price.observed_at, _price.provider, _price.machine_id, _price.num_gpus)
        )

    async def thin(self, before: datetime, *, hours: int) -> int:
        end = hour_of(before)
        done = await self._thinned_until()
        since = true() if done is None else _price.observed_at >= done
        thinned = 0
        while thinned < hours:
            first = await self._sql.fetch_first(
                select(func.min(_price.observed_at, type_=_price.observed_at.type)).where(since)
            )
            if first is None or first[0] is None or hour_of(first[0]) >= end:
                break
            hour = hour_of(first[0])
            await self._thin_hour(hour)
            since = _price.observed_at >= hour + HOUR
            await self._notes.set(THINNED_UNTIL, (hour + HOUR).isoformat())
            thinned += 1
        return thinned

    async def forget(self, before: datetime) -> int:
        return (await self._sql.run(delete(price_observations).where(_price.observed_at < before))).rowcount

    async def _thinned_until(self) -> datetime | None:
        until = await self._notes.get(THINNED_UNTIL)
        return None if until is None else datetime.fromisoformat(until)

    async def _thin_hour(self, hour: datetime) -> None:
        in_hour = (_price.observed_at >= hour) & (_price.observed_at < hour + HOUR)
        seen = await self._select(select(price_observations).where(in_hour).order_by(_price.observed_at))
        await self._sql.run(delete(price_observations).where(in_hour))
        rows = [values_of(price_observations, each) for each in by_the_hour(seen)]
        await self._sql.run(insert(price_observations), rows)

    async def _select(self, chosen: Select[Any]) -> tuple[PriceObservation, ...]:
        rows = await self._sql.fetch_all(chosen)
        return tuple(record_of(PriceObservation, price_observations, row) for row in rows)
