"""The market's history: prices as seen, put together by the hour once they are old, and in the end forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, or_, select, true

from autopilot.domain.job import JobStatus
from autopilot.domain.prices import PriceObservation
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import decisions, events, jobs, notes, price_observations
from autopilot.store.statements import Statements
from autopilot.store.thinning import HOUR, THINNED_UNTIL, by_the_hour, hour_of

_price = price_observations.c
_FINAL = [status for status in JobStatus if status.is_final]


class PriceStatements(Statements):
    async def add_prices(self, observations: Iterable[PriceObservation]) -> None:
        """One per machine, size and instant; a second is left out."""
        await self._append(price_observations, [values_of(price_observations, seen) for seen in observations])

    async def price_history(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        chosen = select(price_observations).where(
            _price.gpu == gpu, _price.observed_at >= since, _price.observed_at < until
        )
        if provider is not None:
            chosen = chosen.where(_price.provider == provider)
        return await self._observations(
            chosen.order_by(_price.observed_at, _price.provider, _price.machine_id, _price.num_gpus)
        )

    async def thin_prices(self, before: datetime, *, hours: int) -> int:
        end = hour_of(before)
        done = await self._thinned_until()
        since = true() if done is None else _price.observed_at >= done
        thinned = 0
        while thinned < hours:
            first = await self._first(select(func.min(_price.observed_at, type_=_price.observed_at.type)).where(since))
            if first is None or first[0] is None or hour_of(first[0]) >= end:
                break
            hour = hour_of(first[0])
            await self._thin(hour)
            since = _price.observed_at >= hour + HOUR
            await self._upsert(notes, [{"key": THINNED_UNTIL, "value": (hour + HOUR).isoformat()}])
            thinned += 1
        return thinned

    async def forget_prices(self, before: datetime) -> int:
        return (await self._run(delete(price_observations).where(_price.observed_at < before))).rowcount

    async def forget_history(self, before: datetime) -> int:
        over = select(jobs.c.id).where(jobs.c.status.in_(_FINAL), jobs.c.finished_at < before)
        forgotten = (await self._run(delete(decisions).where(decisions.c.job_id.in_(over)))).rowcount
        old_and_of_none = events.c.job_id.is_(None) & (events.c.at < before)
        # The newest stays: on SQLite the next one would else get its number again.
        newest = select(func.max(events.c.seq)).scalar_subquery()
        gone = delete(events).where(or_(events.c.job_id.in_(over), old_and_of_none), events.c.seq < newest)
        return forgotten + (await self._run(gone)).rowcount

    async def _thinned_until(self) -> datetime | None:
        row = await self._first(select(notes.c.value).where(notes.c.key == THINNED_UNTIL))
        return None if row is None else datetime.fromisoformat(row[0])

    async def _thin(self, hour: datetime) -> None:
        in_hour = (_price.observed_at >= hour) & (_price.observed_at < hour + HOUR)
        seen = await self._observations(select(price_observations).where(in_hour).order_by(_price.observed_at))
        await self._run(delete(price_observations).where(in_hour))
        rows = [values_of(price_observations, each) for each in by_the_hour(seen)]
        await self._run(insert(price_observations), rows)

    async def _observations(self, chosen: Select[Any]) -> tuple[PriceObservation, ...]:
        rows = await self._all(chosen)
        return tuple(record_of(PriceObservation, price_observations, row) for row in rows)
