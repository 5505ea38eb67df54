"""Prices from before the daemon looked: a market that keeps a record of its own is asked for it once for each search.

It fills the time in which nothing was recorded: before the installation, and while no daemon ran.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import structlog

from autopilot.domain.offer import OfferQuery
from autopilot.domain.prices import FINE_SPAN, FINE_STEP, PRICES_EVERY, PriceObservation
from autopilot.domain.time import start_of_day, utc_day
from autopilot.ports.provider import MarketUnknown, Provider
from autopilot.ports.store import Store, StoreUnavailable

log = structlog.get_logger(__name__)

REACHES_BACK = timedelta(days=30) - timedelta(hours=1)
"""So far markets are asked, an hour short of what they keep: clocks differ."""
ASK_AGAIN = timedelta(hours=1)
"""After a market could not be asked."""
WAIT_REAL_S = 120.0
MOST_SEARCHES = 2_000
"""What is asked for beyond has no record from before: a caller may invent kinds of GPU without end."""
DAY = timedelta(days=1)

Search = tuple[str, tuple[tuple[str, int], ...]]
"""(market, GPUs)"""
Covered = tuple[str, int, datetime]
"""(machine, GPUs, quarter of an hour)"""


class PastPrices:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[Search, datetime | None] = {}
        """When to ask again; None: there is no need."""
        self._asking: set[asyncio.Task[None]] = set()

    def fill(self, markets: Iterable[Provider], queries: Iterable[OfferQuery], now: datetime) -> None:
        """Begin to ask, beside the tick, for what is not on record of these searches."""
        searches = {(market.name, query.gpus): (market, query) for query in queries for market in markets}
        for search, (market, query) in searches.items():
            again_at = self._asked.get(search, now)
            if again_at is None or again_at > now:
                continue
            if search not in self._asked and len(self._asked) >= MOST_SEARCHES:
                continue
            self._asked[search] = None
            task = asyncio.create_task(self._fill(search, market, query, now))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """Wait for what is being asked."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _fill(self, search: Search, market: Provider, query: OfferQuery, now: datetime) -> None:
        added = 0
        try:
            for since, until in ((now - FINE_SPAN, now), (now - REACHES_BACK, now - FINE_SPAN)):
                async with asyncio.timeout(WAIT_REAL_S):
                    seen = await market.past_prices(query, since, until)
                added += await self._record(seen)
        except (MarketUnknown, StoreUnavailable, TimeoutError) as problem:
            self._asked[search] = now + ASK_AGAIN
            log.info("past_prices.unavailable", provider=market.name, reason=str(problem) or "no answer in time")
        except Exception:
            # A defect in one adapter takes nothing but its record.
            log.exception("past_prices.failed", provider=market.name)
        if added:
            log.info("past_prices.recorded", provider=market.name, observations=added)

    async def _record(self, seen: Sequence[PriceObservation]) -> int:
        """Day by day: what is held of a month at once, and what is written at once, stays small."""
        by_day = defaultdict(list)
        for each in seen:
            by_day[utc_day(each.observed_at)].append(each)
        added = 0
        for day, of_day in sorted(by_day.items()):
            begins_at = start_of_day(day)
            kinds = {(each.provider, each.gpu) for each in of_day}
            async with self._store.transaction() as uow:
                covered: set[Covered] = set()
                for provider, gpu in kinds:
                    known = await uow.prices.list_by_gpu(gpu, begins_at, begins_at + DAY, provider=provider)
                    covered.update(quarter for each in known for quarter in _quarters(each))
                new = [each for each in of_day if covered.isdisjoint(_quarters(each))]
                await uow.prices.add(new)
            added += len(new)
        return added


def _quarters(observed: PriceObservation) -> Iterator[Covered]:
    """The quarter hours that an observation covers."""
    at, until = observed.observed_at, observed.observed_at + PRICES_EVERY * observed.samples
    begins_at = at - (at - start_of_day(utc_day(at))) % FINE_STEP
    while begins_at < until:
        yield observed.machine_id, observed.num_gpus, begins_at
        begins_at += FINE_STEP
