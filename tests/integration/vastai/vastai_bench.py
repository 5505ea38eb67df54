"""The real SDK against the sandbox market over loopback, on a clock that runs fast."""

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
from autopilot.providers.vastai import plugin
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot_lab.sandbox.server import Sandbox
from tests.patience import PATIENCE_S

T = TypeVar("T")
SPEED = 600.0
"""Market seconds per real second: the market's longest interval, 19.8 s, is 33 ms."""
KEY = "sandbox-key"
QUERY = OfferQuery(
    gpus=(("RTX 4090", 1),), min_vram_gb=Decimal(20), disk_gb=Decimal(40), verified_only=True, datacenter_only=False
)


@dataclass
class Bench:
    """The market, what may be done to it, and the adapter under test."""

    sandbox: Sandbox
    clock: ScaledClock
    http: aiohttp.ClientSession
    provider: VastaiProvider = field(init=False)
    request_rate: Decimal = Decimal("0.5")
    rented: int = 0

    def __post_init__(self) -> None:
        self.provider = self.connect()

    def connect(self, **settings: Any) -> VastaiProvider:
        merged = {
            "base_url": self.sandbox.url,
            "api_key": KEY,
            "timeout_s": PATIENCE_S,
            "offers_max_age_s": 3600,
            **settings,
        }
        provider = plugin.connect(merged, self.clock)
        assert isinstance(provider, VastaiProvider)
        return provider

    async def control(self, method: str, name: str, **wish: Any) -> Any:
        body = {key: str(value) if isinstance(value, Decimal) else value for key, value in wish.items()}
        async with self.http.request(method, f"{self.sandbox.url}/_emu/{name}", json=body) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def fault(self, on: str, kind: str, **more: Any) -> None:
        await self.control("POST", "fault", on=on, kind=kind, **more)

    async def requests(self, family: str) -> int:
        """How many calls of that family the market has seen."""
        counted: dict[str, int] = await self.control("GET", "requests")
        return counted.get(family, 0)

    async def creates_seen(self, label: str) -> int:
        events = (await self.control("GET", "events"))["events"]
        return sum(event["kind"] == "create.requested" and event["label"] == label for event in events)

    async def cheapest(self) -> Offer:
        offers = await self.provider.offers(QUERY)
        return min(offers, key=lambda offer: offer.floor or Decimal(1000))

    def request(self, offer: Offer, label: str = "ap1.test.one", **changes: Any) -> CreateRequest:
        assert offer.floor is not None
        fields: dict[str, Any] = {
            "label": label,
            "offer_id": offer.offer_id,
            "machine_id": offer.machine_id,
            "capacity_type": CapacityType.SPOT,
            "bid": offer.floor + Decimal("0.01"),
            "image": "some/image:1",
            "disk_gb": Decimal(40),
            "env": {"A": "b"},
            "onstart": "true",
        }
        return CreateRequest(**(fields | changes))

    async def rent(self, label: str = "ap1.test.one", **changes: Any) -> str:
        outcome = await self.provider.create(self.request(await self.cheapest(), label, **changes))
        assert isinstance(outcome, Done), outcome
        return outcome.value.instance_id

    async def rent_offer(self, offer: Offer, *, provider: VastaiProvider | None = None, **changes: Any) -> str:
        """The offer, under a label of its own."""
        self.rented += 1
        request = self.request(offer, f"ap1.test.{self.rented}", **changes)
        outcome = await (provider or self.provider).create(request)
        assert isinstance(outcome, Done), outcome
        return outcome.value.instance_id

    async def seen(self, instance_id: str, wanted: Callable[[Instance], bool]) -> Instance:
        """The instance once the market shows it so."""

        async def look() -> Instance | None:
            instance = await self.provider.instance(instance_id)
            return instance if instance is not None and wanted(instance) else None

        return await eventually(look)

    async def running(self, instance_id: str) -> Instance:
        return await self.seen(instance_id, lambda instance: instance.status is InstanceStatus.RUNNING)


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer of ``look`` that is not None."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(0.01)
