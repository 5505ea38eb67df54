"""The market's history in memory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.domain.prices import PriceObservation
from autopilot.store.memory.access import MemoryRepository
from autopilot.store.memory.tables import MemoryTables, PriceKey
from autopilot.store.thinning import HOUR, THINNED_UNTIL, by_the_hour, hour_of


class MemoryPrices(MemoryRepository):
    __slots__ = ()

    async def add(self, observations: Iterable[PriceObservation]) -> None:
        with self._access.write() as tables:
            for seen in observations:
                if tables.prices.get(_key(seen)) is None:
                    tables.prices.put(_key(seen), seen)

    async def list_by_gpu(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        found = [
            seen
            for seen in self._access.read().prices.values()
            if seen.gpu == gpu and since <= seen.observed_at < until and provider in (None, seen.provider)
        ]
        return tuple(sorted(found, key=lambda seen: (seen.observed_at, seen.provider, seen.machine_id, seen.num_gpus)))

    async def thin(self, before: datetime, *, hours: int) -> int:
        with self._access.write() as tables:
            end = hour_of(before)
            note = tables.notes.get(THINNED_UNTIL)
            done = None if note is None else datetime.fromisoformat(note)
            waiting = {
                hour
                for seen in tables.prices.values()
                if (hour := hour_of(seen.observed_at)) < end and (done is None or hour >= done)
            }
            chosen = sorted(waiting)[:hours]
            for hour in chosen:
                _thin(tables, hour)
                tables.notes.put(THINNED_UNTIL, (hour + HOUR).isoformat())
            return len(chosen)

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            return _remove(tables, [seen for seen in tables.prices.values() if seen.observed_at < before])


def _key(seen: PriceObservation) -> PriceKey:
    return seen.provider, seen.machine_id, seen.num_gpus, seen.observed_at


def _thin(tables: MemoryTables, hour: datetime) -> None:
    in_hour = [seen for seen in tables.prices.values() if hour <= seen.observed_at < hour + HOUR]
    _remove(tables, in_hour)
    for seen in by_the_hour(sorted(in_hour, key=lambda seen: seen.observed_at)):
        tables.prices.put(_key(seen), seen)


def _remove(tables: MemoryTables, seen: list[PriceObservation]) -> int:
    for each in seen:
        tables.prices.remove(_key(each))
    return len(seen)
