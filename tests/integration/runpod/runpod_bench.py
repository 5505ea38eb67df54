"""The adapter with the real SDK against the sandbox's RunPod over loopback, on a clock that runs fast."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import aiohttp

from autopilot.clock import ScaledClock
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import CreateRequest, Done
from autopilot.providers.runpod import plugin
from autopilot.providers.runpod.adapter import RunpodProvider
from autopilot_lab.sandbox.server import Sandbox
from tests.patience import PATIENCE_S

T = TypeVar("T")
SPEED = 600.0
"""Market seconds per real second: the longest interval between requests, 8 s, is 13 ms."""
KEY = "runpod-sandbox-key"
QUERY = OfferQuery(
    gpus=(("RTX 3090", 1),), min_vram_gb=Decimal(20), disk_gb=Decimal(40), verified_only=True, datacenter_only=False
)


@dataclass
class Bench:
    """The market, what may be done to it, and the adapter under test."""

    sandbox: Sandbox
    clock: ScaledClock
    http: aiohttp.ClientSession
    provider: RunpodProvider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = self.connect()

    def connect(self, **settings: Any) -> RunpodProvider:
        merged = {"base_url": self.sandbox.url, "api_key": KEY, "timeout_s": PATIENCE_S, **settings}
        provider = plugin.connect(merged, self.clock)
        assert isinstance(provider, RunpodProvider)
        return provider

    async def control(self, method: str, name: str, **wish: Any) -> Any:
        body = {key: str(value) if isinstance(value, Decimal) else value for key, value in wish.items()}
        async with self.http.request(method, f"{self.sandbox.url}/_emu/runpod/{name}", json=body) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def fault(self, on: str, kind: str, **more: Any) -> None:
        await self.control("POST", "fault", on=on, kind=kind, **more)

    async def mode(self, spot: str) -> None:
        await self.control("POST", "mode", spot=spot)

    async def requests(self, family: str) -> int:
        """How many calls of that family the market has seen."""
        counted: dict[str, int] = await self.control("GET", "requests")
        return counted.get(family, 0)

    async def pods(self) -> list[dict[str, Any]]:
        """The truth about pods that still exist."""
        found = (await self.control("GET", "instances"))["instances"]
        return [pod for pod in found if pod["terminated_at"] is None]

    async def cheapest(self, query: OfferQuery = QUERY) -> Offer:
        offers = await self.provider.offers(query)
        return min(offers, key=lambda offer: offer.floor or offer.on_demand_price or Decimal(1000))

    def request(self, offer: Offer, label: str = "ap1.test.one", **changes: Any) -> CreateRequest:
        is_spot = offer.floor is not None and changes.get("capacity_type") is not CapacityType.ON_DEMAND
        rate = (offer.floor or Decimal(0)) + Decimal("0.01") if is_spot else offer.on_demand_price
        fields = {
            "label": label,
            "offer_id": offer.offer_id,
            "machine_id": offer.machine_id,
            "capacity_type": CapacityType.SPOT if is_spot else CapacityType.ON_DEMAND,
            "bid": rate,
            "image": "some/image:1",
            "disk_gb": Decimal(40),
            "env": {"A": "b"},
            "onstart": "true",
        }
        return CreateRequest(**(fields | changes))

    async def rent(self, label: str = "ap1.test.one", query: OfferQuery = QUERY, **changes: Any) -> str:
        outcome = await self.provider.create(self.request(await self.cheapest(query), label, **changes))
        assert isinstance(outcome, Done), outcome
        return outcome.value.instance_id

    async def seen(self, instance_id: str, wanted: Callable[[Instance], bool]) -> Instance:
        """The instance once the market shows it so."""

        async def look() -> Instance | None:
            instance = await self.provider.instance(instance_id)
            return instance if instance is not None and wanted(instance) else None

        return await eventually(look)

    async def in_state(self, instance_id: str, status: InstanceStatus) -> Instance:
        return await self.seen(instance_id, lambda instance: instance.status is status)


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer of ``look`` that is not None."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(0.01)
