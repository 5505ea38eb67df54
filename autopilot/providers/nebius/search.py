"""Finds offers: which presets a name means, what they cost, and where hardware is free, cached for as long as the
settings say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from nebius.api.nebius.billing.v1alpha1 import (
    CalculatorServiceClient,
    EstimateRequest,
    EstimateResponse,
    ListSpotPricesRequest,
    ListSpotPricesResponse,
    ResourceSpec,
    SpotPriceServiceClient,
)
from nebius.api.nebius.capacity.v1 import (
    ListResourceAdviceRequest,
    ListResourceAdviceResponse,
    ResourceAdviceServiceClient,
)
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    CreateDiskRequest,
    CreateInstanceRequest,
    DiskSpec,
    InstanceSpec,
    ListPlatformsRequest,
    ListPlatformsResponse,
    OnDemandSpec,
    PlatformServiceClient,
    ResourcesSpec,
)

from autopilot.domain import gpu_names
from autopilot.domain.money import HOURS_PER_STORAGE_MONTH
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers import values
from autopilot.providers.nebius import mapping, wire
from autopilot.providers.nebius.client import PAGE_ROWS, NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.pacing import Family

CATALOGUE_MAX_AGE_S = 86_400.0
ESTIMATED_DISK_GB = 1_000
"""Large enough that a price per gigabyte is exact to the tenth of a thousandth of a cent."""
MOST_REMEMBERED = 500
"""Estimates."""

Free = dict[tuple[str, str, str], int | None]
"""(region, platform, preset) → machines."""


@dataclass(frozen=True, slots=True)
class AskedPool:
    preset: wire.PresetRow
    price: wire.SpotRow
    gpu: str
    """The name under which it was asked for."""


class OfferSearch:
    def __init__(self, settings: NebiusSettings, client: NebiusClient, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._presets: dict[str, tuple[float, tuple[wire.PresetRow, ...]]] = {}
        """By region."""
        self._spot: tuple[float, dict[tuple[str, str], wire.SpotRow]] | None = None
        self._free: tuple[float, Free] | None = None
        self._costs: dict[str, tuple[float, Decimal]] = {}
        """$/h of what was estimated."""
        self._searching = asyncio.Lock()

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Raises ``MarketUnknown``."""
        found: list[Offer] = []
        async with self._searching:
            free = await self._free_machines()
            for pool in await self._pools(query):
                if free is not None and not free.get((pool.price.region, pool.price.platform, pool.preset.preset)):
                    continue
                disk_price = await self._disk_price(pool.price.region)
                made = mapping.offer(
                    pool.preset, pool.price.region, pool.gpu, pool.price.price, disk_price, self._settings.image_family
                )
                if made.disk_gb >= query.disk_gb:
                    found.append(made)
        return tuple(found)

    async def pools(self, query: OfferQuery) -> tuple[AskedPool, ...]:
        """Pools that match the query, with a free machine or not. Raises ``MarketUnknown``."""
        async with self._searching:
            return await self._pools(query)

    async def _pools(self, query: OfferQuery) -> tuple[AskedPool, ...]:
        spot = await self._spot_prices()
        found: list[AskedPool] = []
        for region in self._settings.projects:
            for row in await self._presets_of(region):
                name, price = _asked_as(row, query), spot.get((region, row.platform))
                if name is not None and price is not None and row.memory_gb >= query.min_vram_gb:
                    found.append(AskedPool(row, price, name))
        return tuple(found)

    async def gpu_names(self) -> tuple[str, ...]:
        """Raises ``MarketUnknown``."""
        async with self._searching:
            rows = [row for region in self._settings.projects for row in await self._presets_of(region)]
        return tuple(dict.fromkeys(mapping.gpu_of(row.platform) for row in rows))

    async def presets(self, region: str) -> tuple[wire.PresetRow, ...]:
        """Raises ``MarketUnknown``."""
        async with self._searching:
            return await self._presets_of(region)

    async def spot_price(self, region: str, platform: str) -> Decimal | None:
        """$/h of a GPU. None: there is none, or it cannot be read now."""
        async with self._searching:
            try:
                row = (await self._spot_prices()).get((region, platform))
            except MarketUnknown:
                return None
        return None if row is None else row.price

    async def disk_price(self, region: str) -> Decimal | None:
        """$/GB-month, an old one where there is no other. None: it was never read."""
        async with self._searching:
            try:
                return await self._disk_price(region)
            except MarketUnknown:
                held = self._costs.get(f"disk/{region}")
        return None if held is None else _per_gb_month(held[1])

    async def highest_cap(self, region: str, platform: str, preset: str, num_gpus: int) -> Decimal | None:
        """$/h of a GPU: the highest that the market is known to take. None: it cannot be told now."""

        def ask() -> ResourceSpec:
            spec = InstanceSpec(resources=ResourcesSpec(platform=platform, preset=preset), on_demand=OnDemandSpec())
            metadata = ResourceMetadata(parent_id=self._settings.projects[region])
            return ResourceSpec(compute_instance_spec=CreateInstanceRequest(metadata=metadata, spec=spec))

        async with self._searching:
            try:
                cost = await self._cost(mapping.pool_id(region, platform, preset), ask)
            except MarketUnknown:
                return None
        highest = cost / num_gpus - mapping.BELOW_ON_DEMAND
        return highest if highest > 0 else None

    async def _presets_of(self, region: str) -> tuple[wire.PresetRow, ...]:
        held, now = self._presets.get(region), self._clock.monotonic()
        if held is None or now - held[0] >= CATALOGUE_MAX_AGE_S:
            project = self._settings.projects[region]
            platforms = await self._client.rows(
                Family.PRICE,
                PlatformServiceClient,
                lambda token: ListPlatformsRequest(parent_id=project, page_size=PAGE_ROWS, page_token=token),
                ListPlatformsResponse,
            )
            if not platforms:
                # A scope that the account cannot see is answered like an empty one.
                raise MarketUnknown(f"project {project} shows no kind of machine: is it one that the account can see?")
            rows = tuple(row for each in platforms for row in wire.preset_rows(each))
            self._presets[region] = held = (now, rows)
        return held[1]

    async def _spot_prices(self) -> dict[tuple[str, str], wire.SpotRow]:
        now = self._clock.monotonic()
        if self._spot is None or now - self._spot[0] >= self._settings.offers_max_age_s:
            prices = await self._client.rows(
                Family.PRICE,
                SpotPriceServiceClient,
                lambda token: ListSpotPricesRequest(page_size=PAGE_ROWS, page_token=token),
                ListSpotPricesResponse,
            )
            rows = [row for each in prices if (row := wire.spot_row(each)) is not None]
            self._spot = (now, {(row.region, row.platform): row for row in rows})
        return self._spot[1]

    async def _free_machines(self) -> Free | None:
        """None: not asked, because no tenant is set."""
        if not self._settings.tenant:
            return None
        now = self._clock.monotonic()
        if self._free is None or now - self._free[0] >= max(self._settings.offers_max_age_s, 120):
            advice = await self._client.rows(
                Family.PRICE,
                ResourceAdviceServiceClient,
                lambda token: ListResourceAdviceRequest(
                    parent_id=self._settings.tenant, page_size=PAGE_ROWS, page_token=token
                ),
                ListResourceAdviceResponse,
            )
            free: Free = {}
            for row in (wire.advice_row(each) for each in advice):
                if row is not None:
                    place = (row.region, row.platform, row.preset)
                    # A region has several networks of hardware, each with a row.
                    free[place] = max(free.get(place) or 0, row.free or 0)
            self._free = (now, free)
        return self._free[1]

    async def _disk_price(self, region: str) -> Decimal:
        def ask() -> ResourceSpec:
            spec = DiskSpec(type=DiskSpec.DiskType.NETWORK_SSD, size_gibibytes=ESTIMATED_DISK_GB)
            metadata = ResourceMetadata(parent_id=self._settings.projects[region])
            return ResourceSpec(compute_disk_spec=CreateDiskRequest(metadata=metadata, spec=spec))

        cost = await self._cost(f"disk/{region}", ask)
        price = _per_gb_month(cost)
        if price is None:
            raise MarketUnknown(f"the price of a disk in {region} cannot be read")
        return price

    async def _cost(self, what: str, ask: Callable[[], ResourceSpec]) -> Decimal:
        """``ask`` is called where no cost is held: a message of this SDK takes a millisecond to make."""
        held, now = self._costs.get(what), self._clock.monotonic()
        if held is None or now - held[0] >= CATALOGUE_MAX_AGE_S:
            request = EstimateRequest(resource_spec=ask())
            answer = await self._client.get(
                Family.PRICE, CalculatorServiceClient, "estimate", request, EstimateResponse
            )
            cost = wire.hourly_cost(answer)
            if cost is None:
                raise MarketUnknown(f"the estimate for {what} cannot be read")
            if len(self._costs) >= MOST_REMEMBERED:
                self._costs.clear()
            self._costs[what] = held = (now, cost)
        return held[1]


def _per_gb_month(cost: Decimal) -> Decimal | None:
    return values.price(cost * HOURS_PER_STORAGE_MONTH / ESTIMATED_DISK_GB)


def _asked_as(row: wire.PresetRow, query: OfferQuery) -> str | None:
    called = mapping.gpu_of(row.platform)
    return next(
        (name for name, count in query.gpus if count == row.num_gpus and gpu_names.is_called(called, name)), None
    )
