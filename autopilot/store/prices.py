"""The market's history: prices as seen, put together by the hour once they are old, and in the end forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    case,
    cast,
    delete,
    extract,
    func,
    insert,
    select,
    true,
    type_coerce,
)

from autopilot.domain.money import from_nano
from autopilot.domain.prices import PriceObservation, PriceSum, step_width
from autopilot.domain.time import MICROSECOND
from autopilot.store.history import SqlNotes
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import price_observations
from autopilot.store.statements import SqlRepository, Statements
from autopilot.store.thinning import HOUR, THINNED_UNTIL, by_the_hour, hour_of

_price = price_observations.c
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = len("2026-01-01T00:00:00")
_PART = 1 << 30


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

    async def sum_by_step(
        self, gpus: Collection[str], since: datetime, until: datetime, *, steps: int, provider: str | None = None
    ) -> tuple[PriceSum, ...]:
        passed = self._microseconds(_price.observed_at) - (since - _EPOCH) // MICROSECOND
        step = passed // (step_width(since, until, steps) // MICROSECOND)
        # By the step first: the index yields rows in the order of time, so there is less to sort.
        key = (step.label("step"), _price.provider, _price.num_gpus)
        floor = type_coerce(_price.floor, BigInteger)
        sums = (
            func.min(func.coalesce(_price.floor_low, _price.floor, type_=_price.floor.type)),
            func.max(func.coalesce(_price.floor_high, _price.floor, type_=_price.floor.type)),
            func.min(_price.on_demand_price),
            # In two parts: a sum of many large amounts is more than a BIGINT holds.
            func.sum(floor // _PART * _price.samples, type_=BigInteger),
            func.sum(floor % _PART * _price.samples, type_=BigInteger),
            func.sum(case((_price.floor.is_not(None), _price.samples), else_=0)),
            func.sum(_price.samples),
            func.count(_price.machine_id.distinct()),
            func.max(_price.observed_at, type_=_price.observed_at.type),
        )
        chosen = select(*key, *sums).where(*_within(gpus, since, until, provider))
        sums_found = [_sum_of(*row) for row in await self._sql.fetch_all(chosen.group_by(*key))]
        return tuple(sorted(sums_found, key=lambda each: (each.provider, each.num_gpus, each.step)))

    async def count_machines(
        self, gpus: Collection[str], since: datetime, until: datetime, *, provider: str | None = None
    ) -> Mapping[str, int]:
        machine = select(_price.provider, _price.num_gpus, _price.machine_id).distinct()
        each = machine.where(*_within(gpus, since, until, provider)).subquery()
        counted = select(each.c.provider, func.count()).group_by(each.c.provider)
        return {market: machines for market, machines in await self._sql.fetch_all(counted)}

    def _microseconds(self, instant: ColumnElement[datetime]) -> ColumnElement[int]:
        """Since the epoch, as a whole number."""
        if self._sql.dialect_name == "sqlite":
            # Whole seconds alone: with their fraction SQLite rounds to milliseconds, at times into the next second.
            seconds = cast(func.strftime("%s", func.substr(instant, 1, _WHOLE, type_=Text)), BigInteger)
            return seconds * 1_000_000 + cast(func.substr(instant, _WHOLE + 2, 6, type_=Text), BigInteger)
        return cast(extract("epoch", instant) * 1_000_000, BigInteger)

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


def _within(gpus: Collection[str], since: datetime, until: datetime, provider: str | None) -> list[ColumnElement[bool]]:
    chosen = [_price.gpu.in_(gpus), _price.observed_at >= since, _price.observed_at < until]
    return chosen if provider is None else [*chosen, _price.provider == provider]


def _sum_of(
    step: int,
    provider: str,
    num_gpus: int,
    low: Decimal | None,
    high: Decimal | None,
    on_demand_price: Decimal | None,
    parts: int | None,
    rest: int | None,
    *others: Any,
) -> PriceSum:
    total = from_nano(int(parts or 0) * _PART + int(rest or 0))
    floors, samples, machines, last_at = others
    return PriceSum(
        provider, num_gpus, int(step), low, high, on_demand_price, total, int(floors), int(samples), machines, last_at
    )
