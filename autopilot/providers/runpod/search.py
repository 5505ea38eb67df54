"""Finds offers: which GPU types a name means, and their prices, cached for as long as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.host import HostNeeds
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.ports.clock import Clock
from autopilot.providers.runpod import mapping, wire
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.runpod.wishes import Place, places

CATALOGUE_MAX_AGE_S = 86_400.0
FORGET_AFTER_S = 3600.0
"""Prices that were asked for with wishes of jobs that are over."""

AskTypes = Callable[[], Awaitable[tuple[wire.GpuRow, ...]]]
AskPrices = Callable[[Collection[str], int, HostNeeds, Place], Awaitable[tuple[wire.PriceRow, ...]]]
Wish = tuple[int, HostNeeds, Place]
"""Number of GPUs, and what is asked of their machine."""


@dataclass(frozen=True, slots=True)
class _Priced:
    gpu_type_ids: frozenset[str]
    rows: tuple[wire.PriceRow, ...]
    seen_at: float


class OfferSearch:
    def __init__(self, settings: RunpodSettings, clock: Clock, ask_types: AskTypes, ask_prices: AskPrices) -> None:
        self._settings = settings
        self._clock = clock
        self._ask_types = ask_types
        self._ask_prices = ask_prices
        self._catalogue: tuple[wire.GpuRow, ...] = ()
        self._catalogue_at: float | None = None
        self._priced: dict[Wish, _Priced] = {}
        self._searching = asyncio.Lock()

    def forget(self) -> None:
        """Query again at the next search."""
        self._catalogue_at = None
        self._priced.clear()

    async def offers(self, query: OfferQuery, *, spot: bool) -> tuple[Offer, ...]:
        """``spot`` False: without floors. Raises ``MarketUnknown``."""
        disk_gb = Decimal(self._settings.largest_disk_gb)
        found: list[Offer] = []
        async with self._searching:
            for count in sorted({count for _, count in query.gpus}):
                names = await self._names({name for name, wanted in query.gpus if wanted == count})
                rows = [
                    row
                    for place in places(query.host)
                    for row in await self._prices(frozenset(names), (count, query.host, place))
                ]
                made = (mapping.offer(row, names[row.gpu.gpu_type_id], disk_gb, spot=spot) for row in rows)
                found += [offer for offer in made if offer is not None and _fits(offer, query)]
        return _cheapest(found)

    async def _names(self, wanted: Collection[str]) -> dict[str, str]:
        """Id of a GPU type → the name under which it was asked for."""
        types = await self._types()
        return {row.gpu_type_id: name for name in sorted(wanted) for row in types if is_called(row, name)}

    async def gpu_names(self) -> tuple[str, ...]:
        """Ids and display names of all types in the catalogue. Raises ``MarketUnknown``."""
        async with self._searching:
            return tuple(name for row in await self._types() for name in (row.name, row.gpu_type_id))

    async def _types(self) -> tuple[wire.GpuRow, ...]:
        now = self._clock.monotonic()
        if self._catalogue_at is None or now - self._catalogue_at >= CATALOGUE_MAX_AGE_S:
            self._catalogue, self._catalogue_at = await self._ask_types(), now
        return self._catalogue

    async def _prices(self, gpu_type_ids: frozenset[str], wish: Wish) -> list[wire.PriceRow]:
        """All types that were asked for lately with the same wishes are priced in one request."""
        if not gpu_type_ids:
            return []
        now = self._clock.monotonic()
        self._priced = {key: held for key, held in self._priced.items() if now - held.seen_at < FORGET_AFTER_S}
        held = self._priced.get(wish)
        is_old = held is None or now - held.seen_at >= self._settings.offers_max_age_s
        if held is None or is_old or not gpu_type_ids <= held.gpu_type_ids:
            wanted = gpu_type_ids | (held.gpu_type_ids if held is not None else frozenset())
            held = self._priced[wish] = _Priced(wanted, await self._ask_prices(wanted, *wish), now)
        return [row for row in held.rows if row.gpu.gpu_type_id in gpu_type_ids]


def is_called(row: wire.GpuRow, name: str) -> bool:
    """By its id, which tells models apart; by its display name where the table does not have the id."""
    called = row.gpu_type_id if gpu_names.models(row.gpu_type_id) else row.name
    return gpu_names.is_called(called, name) or gpu_names.is_called(row.gpu_type_id, name)


def _cheapest(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """One of each pool: in several places it is one pool to us."""
    chosen: dict[tuple[str, str, int], Offer] = {}
    for offer in offers:
        held = chosen.get(offer.key)
        if held is None or _cost_order(offer) < _cost_order(held):
            chosen[offer.key] = offer
    return tuple(chosen.values())


def _cost_order(offer: Offer) -> tuple[Decimal, Decimal]:
    unknown = Decimal("Infinity")
    return offer.floor or unknown, offer.on_demand_price or unknown


def _fits(offer: Offer, query: OfferQuery) -> bool:
    return (
        offer.vram_gb >= query.min_vram_gb
        and offer.disk_gb >= query.disk_gb
        and (offer.datacenter or not query.datacenter_only)
    )
