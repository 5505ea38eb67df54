"""The sandbox's RunPod market behind the vendor's SDK and REST."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers.runpod import plugin
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

KEY = "runpod-sandbox-key"


class RunpodHarness:
    """``mode``: how far the market's withdrawal of spot has come, as ``POST /_emu/runpod/mode`` takes it."""

    query = OfferQuery(
        gpus=(("RTX 4090", 1),), min_vram_gb=Decimal(20), disk_gb=Decimal(40), verified_only=True, datacenter_only=False
    )
    image = "some/image:1"
    onstart = "true"
    has_wire = True

    def __init__(
        self, url: str, http: aiohttp.ClientSession, clock: QuickClock, capacity_type: CapacityType, mode: str
    ) -> None:
        self.url = url
        self._http = http
        self.clock = clock
        self.capacity_type = capacity_type
        self._mode = mode
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        return plugin.connect({"base_url": self.url, "api_key": KEY, "timeout_s": PATIENCE_S}, self.clock)

    async def make_offer_available(self) -> Offer:
        """An offer is a pool of machines: that of the secure cloud has room for more than one instance."""
        return next(offer for offer in await self.provider.offers(self.query) if offer.datacenter)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def outbid(self, instance_id: str) -> Decimal:
        instance = await self.provider.instance(instance_id)
        assert instance is not None
        await self.control("rival", pod_id=instance_id, bid=str(instance.bid + Decimal("0.050")))
        return instance.bid + Decimal("0.060")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        is_spot = self.capacity_type is CapacityType.SPOT
        async with self._fault("podRentInterruptable" if is_spot else "v2.create", "effect_then_reset"):
            yield

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        async with self._fault("v2.list" if self._mode == "graphql_gone" else "myself", "bad_json"):
            yield

    @asynccontextmanager
    async def _fault(self, on: str, kind: str) -> AsyncIterator[None]:
        await self.control("fault", on=on, kind=kind, times=None)
        yield
        async with self._http.delete(f"{self.url}/_emu/runpod/faults") as response:
            assert response.status == 200

    async def billed(self, instance_id: str) -> Decimal:
        books = (await self.control("books"))["books"]
        (book,) = (book for book in books if book["pod_id"] == instance_id)
        return Decimal(book["billed"])

    async def control(self, name: str, **wish: Any) -> Any:
        method = "POST" if wish else "GET"
        async with self._http.request(method, f"{self.url}/_emu/runpod/{name}", json=wish or None) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def runpod_harness(
    root: Path, clock: QuickClock, capacity_type: CapacityType, mode: str = "normal"
) -> AsyncIterator[RunpodHarness]:
    config = SandboxConfig(state_dir=root / "sandbox", real_processes=False, runpod_billing_lag_s=0.0)
    async with running_sandbox(config, clock) as sandbox, aiohttp.ClientSession() as http:
        made = RunpodHarness(sandbox.url, http, clock, capacity_type, mode)
        await made.control("mode", spot=mode)
        yield made
        await made.provider.close()
