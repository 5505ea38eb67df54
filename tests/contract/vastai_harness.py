"""The sandbox's vast.ai market behind the vendor's SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers.vastai import plugin
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

KEY = "sandbox-key"
QUERY = OfferQuery(
    gpus=(("RTX 4090", 1),), min_vram_gb=Decimal(20), disk_gb=Decimal(40), verified_only=True, datacenter_only=False
)


class VastaiHarness:
    """``control`` calls the sandbox's control API, ``POST`` with a wish and ``GET`` without one."""

    query = QUERY
    image = "some/image:1"
    onstart = "true"
    has_wire = True

    def __init__(self, url: str, http: aiohttp.ClientSession, clock: QuickClock, capacity_type: CapacityType) -> None:
        self.url = url
        self._http = http
        self.clock = clock
        self.capacity_type = capacity_type
        self.provider: Provider = self.connect()
        self._given: set[str] = set()

    def connect(self) -> Provider:
        return self.connect_with(KEY)

    def connect_with(self, key: str) -> Provider:
        settings: dict[str, Any] = {"base_url": self.url, "api_key": key, "timeout_s": PATIENCE_S}
        return plugin.connect(settings, self.clock)

    async def make_offer_available(self) -> Offer:
        offers = await self.provider.offers(self.query)
        offer = min((o for o in offers if o.machine_id not in self._given), key=lambda o: o.on_demand_price or 99)
        self._given.add(offer.machine_id)
        return offer

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def outbid(self, instance_id: str) -> Decimal:
        instance = await self.provider.instance(instance_id)
        assert instance is not None
        await self.control("rival", instance_id=int(instance_id), bid=str(instance.bid + Decimal("0.050")))
        return instance.bid + Decimal("0.060")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        async with self._fault("create", "effect_then_reset"):
            yield

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        async with self._fault("list", "bad_json"):
            yield

    @asynccontextmanager
    async def _fault(self, on: str, kind: str) -> AsyncIterator[None]:
        await self.control("fault", on=on, kind=kind, times=None)
        yield
        async with self._http.delete(f"{self.url}/_emu/faults") as response:
            assert response.status == 200

    async def billed(self, instance_id: str) -> Decimal:
        books = (await self.control("books"))["books"]
        (book,) = (book for book in books if str(book["instance_id"]) == instance_id)
        return Decimal(book["billed"])

    async def control(self, name: str, **wish: Any) -> Any:
        method = "POST" if wish else "GET"
        async with self._http.request(method, f"{self.url}/_emu/{name}", json=wish or None) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def vastai_harness(root: Path, clock: QuickClock, capacity_type: CapacityType) -> AsyncIterator[VastaiHarness]:
    config = SandboxConfig(state_dir=root / "sandbox", real_processes=False)
    async with running_sandbox(config, clock) as sandbox, aiohttp.ClientSession() as http:
        made = VastaiHarness(sandbox.url, http, clock, capacity_type)
        yield made
        await made.provider.close()
