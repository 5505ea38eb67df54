"""Finds offers: which GPU types a name means, and their prices, cached for as long as the settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.ports.clock import Clock
from autopilot.providers.runpod import mapping, wire
from autopilot.providers.runpod.config import RunpodSettings

CATALOGUE_MAX_AGE_S = 86_400.0

AskTypes = Callable[[], Awaitable[tuple[wire.GpuRow, ...]]]
AskPrices = Callable[[Collection[str], int], Awaitable[tuple[wire.PriceRow, ...]]]


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
        self._priced: dict[int, _Priced] = {}
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
                for row in await self._prices(frozenset(names), count):
                    made = mapping.offer(row, names[row.gpu.gpu_type_id], disk_gb, spot=spot)
                    if made is not None and _fits(made, query):
                        found.append(made)
        return tuple(found)

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

    async def _prices(self, gpu_type_ids: frozenset[str], count: int) -> list[wire.PriceRow]:
        """All types that were asked for lately are priced in one request."""
        if not gpu_type_ids:
            return []
        now = self._clock.monotonic()
        held = self._priced.get(count)
        is_old = held is None or now - held.seen_at >= self._settings.offers_max_age_s
        if held is None or is_old or not gpu_type_ids <= held.gpu_type_ids:
            wanted = gpu_type_ids | (held.gpu_type_ids if held is not None else frozenset())
            held = self._priced[count] = _Priced(wanted, await self._ask_prices(wanted, count), now)
        return [row for row in held.rows if row.gpu.gpu_type_id in gpu_type_ids]


def is_called(row: wire.GpuRow, name: str) -> bool:
    """By its id, which tells models apart; by its display name where the table does not have the id."""
    called = row.gpu_type_id if gpu_names.models(row.gpu_type_id) else row.name
    return gpu_names.is_called(called, name) or gpu_names.is_called(row.gpu_type_id, name)


def _fits(offer: Offer, query: OfferQuery) -> bool:
    return (
        offer.vram_gb >= query.min_vram_gb
        and offer.disk_gb >= query.disk_gb
        and (offer.datacenter or not query.datacenter_only)
    )
