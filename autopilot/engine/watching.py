"""Floors of GPUs that the user watches, from the day of installation on, while no job searches them.

What is found is recorded with all other prices; decisions of jobs do not read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.job import GpuChoice
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.engine.observe import Watch

DISK_GB = Decimal(20)
"""What a job has that does not say: its machines are those that are watched."""


def watch_queries(gpus: Iterable[GpuChoice]) -> tuple[OfferQuery, ...]:
    """One for each model that is meant, so that each gets an equal share of what may be searched."""
    kinds = ((name, gpu.count, gpu_names.least_gb(gpu.name)) for gpu in gpus for name in gpu_names.expand(gpu.name))
    return tuple(
        OfferQuery(((name, count),), least_gb, DISK_GB, verified_only=True, datacenter_only=False, floors_only=True)
        for name, count, least_gb in dict.fromkeys(kinds)
    )


class Watching:
    def __init__(self, gpus: Iterable[GpuChoice]) -> None:
        self._queries = watch_queries(gpus)
        self.kinds = frozenset(kind for query in self._queries for kind in query.gpus)
        """(GPU, count) of each."""

    async def read(
        self, markets: Sequence[Watch], searched: Iterable[OfferQuery]
    ) -> Mapping[OfferQuery, tuple[Offer, ...]]:
        """From all markets on which machines are auctioned. ``searched``: by jobs, in this tick."""
        by_jobs = {kind for query in searched for kind in query.gpus}
        due = [query for query in self._queries if not by_jobs.intersection(query.gpus)]
        auctions = [market for market in markets if _has_auction(market)]
        found = await asyncio.gather(*(market.offers(query) for query in due for market in auctions))
        offers: dict[OfferQuery, tuple[Offer, ...]] = {}
        for number, query in enumerate(due):
            of_markets = found[number * len(auctions) : (number + 1) * len(auctions)]
            offers[query] = tuple(offer for each in of_markets for offer in each)
        return offers


def _has_auction(market: Watch) -> bool:
    able = market.provider.capabilities
    return market.last.known and able.reports_floor and able.can_rebid
