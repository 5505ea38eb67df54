"""Finds offers: which kinds of machine a name means, where they are auctioned, and their prices, cached for as long as
the settings say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, RefusalCode
from autopilot.providers.mithril import mapping, shapes, wire
from autopilot.providers.mithril.client import MithrilClient
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.mithril.own_bids import OwnBids
from autopilot.providers.mithril.pacing import Family

CATALOGUE_MAX_AGE_S = 86_400.0
LOOKED_AGAIN_AFTER_S = 600.0
"""A kind of machine that the catalogue does not have is looked for in a new one, no more often than that."""
MOST_POOLS = 200
"""Pools of one search that are priced: each takes a request."""

Pool = tuple[str, str]
"""(region, kind of machine)"""


@dataclass(frozen=True, slots=True)
class _Priced:
    row: wire.PriceRow | None
    """None: the market has no price there."""
    seen_at: float


@dataclass(frozen=True, slots=True)
class AskedPool:
    region: str
    kind: wire.TypeRow
    gpu: str
    """The name under which it was asked for."""


class OfferSearch:
    def __init__(self, settings: MithrilSettings, client: MithrilClient, clock: Clock, own: OwnBids) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._own = own
        self._types: dict[str, wire.TypeRow] = {}
        self._types_at: float | None = None
        self._auctions: tuple[wire.AuctionRow, ...] = ()
        self._auctions_at: float | None = None
        self._priced: dict[Pool, _Priced] = {}
        self._searching = asyncio.Lock()

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Raises ``MarketUnknown``."""
        found: list[Offer] = []
        async with self._searching:
            for pool in await self._pools(query):
                row = await self._price(pool.region, pool.kind.type_id)
                own = self._own.of(pool.region, pool.kind.type_id)
                made = None if row is None else mapping.offer(pool.kind, pool.region, row, pool.gpu, own)
                if made is not None and made.vram_gb >= query.min_vram_gb and made.disk_gb >= query.disk_gb:
                    found.append(made)
        return tuple(found)

    async def pools(self, query: OfferQuery) -> tuple[AskedPool, ...]:
        """Pools that match the query. Raises ``MarketUnknown``."""
        async with self._searching:
            return await self._pools(query)

    async def _pools(self, query: OfferQuery) -> tuple[AskedPool, ...]:
        types = await self._catalogue(CATALOGUE_MAX_AGE_S)
        found: list[AskedPool] = []
        for auction in (await self._all_auctions())[:MOST_POOLS]:
            kind = types.get(auction.type_id)
            name = None if kind is None else _asked_as(kind, query)
            if kind is not None and name is not None:
                found.append(AskedPool(auction.region, kind, name))
        return tuple(found)

    async def gpu_names(self) -> tuple[str, ...]:
        """GPUs of all kinds of machine in the catalogue. Raises ``MarketUnknown``."""
        async with self._searching:
            types = await self._catalogue(CATALOGUE_MAX_AGE_S)
        return tuple(dict.fromkeys(mapping.gpu_of(kind.name) for kind in types.values()))

    async def kind(self, type_id: str) -> wire.TypeRow | None:
        """None: the market does not list it, or cannot be asked now."""
        async with self._searching:
            try:
                known = (await self._catalogue(CATALOGUE_MAX_AGE_S)).get(type_id)
                return known or (await self._catalogue(LOOKED_AGAIN_AFTER_S)).get(type_id)
            except MarketUnknown:
                return self._types.get(type_id)

    async def prices(self, region: str, type_id: str) -> wire.PriceRow | None:
        """None: there are none, or they cannot be read now."""
        async with self._searching:
            try:
                return await self._price(region, type_id)
            except MarketUnknown:
                return None

    async def ceiling(self, region: str, type_id: str) -> Decimal | None:
        """$/h: no bid may be higher. None: there is none, or it cannot be read now."""
        row = await self.prices(region, type_id)
        return None if row is None else row.ceiling

    async def region_of(self, type_id: str) -> str:
        """Region of a bid that does not state it: a kind of machine is mostly in one region. Empty: it is unknown."""
        async with self._searching:
            try:
                found = {row.region for row in await self._all_auctions() if row.type_id == type_id}
            except MarketUnknown:
                found = {row.region for row in self._auctions if row.type_id == type_id}
        return found.pop() if len(found) == 1 else ""

    async def _catalogue(self, max_age_s: float) -> dict[str, wire.TypeRow]:
        now = self._clock.monotonic()
        if self._types_at is None or now - self._types_at >= max_age_s:
            raw = await self._client.rows(
                Family.PRICE, "/v2/instance-types", shapes.TYPE, names=("data", "instance_types")
            )
            rows = (wire.type_row(row) for row in raw)
            self._types, self._types_at = {row.type_id: row for row in rows if row is not None}, now
        return self._types

    async def _all_auctions(self) -> tuple[wire.AuctionRow, ...]:
        """Each pool once."""
        now = self._clock.monotonic()
        if self._auctions_at is None or now - self._auctions_at >= self._settings.offers_max_age_s:
            names = ("auctions", "data", "availability")
            raw = await self._client.rows(Family.PRICE, "/v2/spot/availability", shapes.AUCTION, names=names)
            rows = (wire.auction_row(row) for row in raw)
            once = {(row.region, row.type_id): row for row in rows if row is not None}
            self._auctions, self._auctions_at = tuple(once.values()), now
        return self._auctions

    async def _price(self, region: str, type_id: str) -> wire.PriceRow | None:
        now = self._clock.monotonic()
        held = self._priced.get((region, type_id))
        if held is None or now - held.seen_at >= self._settings.offers_max_age_s:
            held = self._priced[region, type_id] = _Priced(await self._ask_price(region, type_id), now)
            if len(self._priced) > MOST_POOLS:
                del self._priced[min(self._priced, key=lambda pool: self._priced[pool].seen_at)]
        return held.row

    async def _ask_price(self, region: str, type_id: str) -> wire.PriceRow | None:
        wish = {"instance_type": type_id, "region": region}
        try:
            body = await self._client.get(Family.PRICE, "/v2/pricing/current", shapes.PRICES, wish)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        if not isinstance(body, dict):
            raise MarketUnknown("/v2/pricing/current: the answer holds no prices")
        return wire.price_row(body)


def _asked_as(kind: wire.TypeRow, query: OfferQuery) -> str | None:
    called = mapping.gpu_of(kind.name)
    return next(
        (name for name, count in query.gpus if count == kind.num_gpus and gpu_names.is_called(called, name)), None
    )
