"""The market's history in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from autopilot.domain.money import ZERO
from autopilot.domain.prices import PriceObservation, PriceSum, step_width
from autopilot.store.thinning import HOUR, THINNED_UNTIL, by_the_hour, hour_of
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.tables import MemoryTables, PriceKey


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
        found = self._within([gpu], since, until, provider)
        return tuple(sorted(found, key=lambda seen: (seen.observed_at, seen.provider, seen.machine_id, seen.num_gpus)))

    async def sum_by_step(
        self, gpus: Collection[str], since: datetime, until: datetime, *, steps: int, provider: str | None = None
    ) -> tuple[PriceSum, ...]:
        width = step_width(since, until, steps)
        groups: dict[tuple[str, int, int], list[PriceObservation]] = defaultdict(list)
        for seen in self._within(gpus, since, until, provider):
            groups[seen.provider, seen.num_gpus, (seen.observed_at - since) // width].append(seen)
        return tuple(_sum(*key, seen) for key, seen in sorted(groups.items()))

    async def count_machines(
        self, gpus: Collection[str], since: datetime, until: datetime, *, provider: str | None = None
    ) -> Mapping[str, int]:
        machines: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for seen in self._within(gpus, since, until, provider):
            machines[seen.provider].add((seen.machine_id, seen.num_gpus))
        return {market: len(each) for market, each in machines.items()}

    def _within(
        self, gpus: Collection[str], since: datetime, until: datetime, provider: str | None
    ) -> list[PriceObservation]:
        return [
            seen
            for seen in self._access.read().prices.values()
            if seen.gpu in gpus and since <= seen.observed_at < until and provider in (None, seen.provider)
        ]

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


def _sum(provider: str, num_gpus: int, step: int, seen: Sequence[PriceObservation]) -> PriceSum:
    lows = [low for each in seen if (low := each.floor if each.floor_low is None else each.floor_low) is not None]
    highs = [high for each in seen if (high := each.floor if each.floor_high is None else each.floor_high) is not None]
    asked = [each.on_demand_price for each in seen if each.on_demand_price is not None]
    known = [(each.floor, each.samples) for each in seen if each.floor is not None]
    return PriceSum(
        provider,
        num_gpus,
        step,
        min(lows, default=None),
        max(highs, default=None),
        min(asked, default=None),
        sum((floor * samples for floor, samples in known), ZERO),
        sum(samples for _, samples in known),
        sum(each.samples for each in seen),
        len({each.machine_id for each in seen}),
        max(each.observed_at for each in seen),
    )


def _thin(tables: MemoryTables, hour: datetime) -> None:
    in_hour = [seen for seen in tables.prices.values() if hour <= seen.observed_at < hour + HOUR]
    _remove(tables, in_hour)
    for seen in by_the_hour(sorted(in_hour, key=lambda seen: seen.observed_at)):
        tables.prices.put(_key(seen), seen)


def _remove(tables: MemoryTables, seen: list[PriceObservation]) -> int:
    for each in seen:
        tables.prices.remove(_key(each))
    return len(seen)
