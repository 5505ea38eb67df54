"""The sandbox's Mithril market behind the adapter's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers.mithril import plugin
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

KEY = "mithril-sandbox-key"


class MithrilHarness:
    """``control`` calls the market's control API, ``POST`` with a wish and ``GET`` without one."""

    query = OfferQuery(
        gpus=(("A100 SXM4", 1),),
        min_vram_gb=Decimal(40),
        disk_gb=Decimal(40),
        verified_only=True,
        datacenter_only=False,
    )
    image = "some/image:1"
    onstart = "true"
    has_wire = True
    capacity_type = CapacityType.SPOT

    def __init__(self, sandbox: Sandbox, http: aiohttp.ClientSession, clock: QuickClock) -> None:
        self.market = sandbox.mithril
        self.url = sandbox.url
        self.http = http
        self.clock = clock
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        return plugin.connect({"base_url": self.url, "api_key": KEY, "timeout_s": PATIENCE_S}, self.clock)

    async def make_offer_available(self) -> Offer:
        """An offer is a pool of machines: the cheapest has room for more than one."""
        return min(await self.provider.offers(self.query), key=lambda offer: offer.floor or 99)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def outbid(self, instance_id: str) -> Decimal:
        instance = await self.provider.instance(instance_id)
        assert instance is not None
        await self.control("rival", bid_id=instance_id, limit=str(instance.bid + Decimal("0.05")))
        return instance.bid + Decimal("0.06")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        async with self.fault("create", "effect_then_reset"):
            yield

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        async with self.fault("list", "bad_json"):
            yield

    @asynccontextmanager
    async def fault(self, on: str, kind: str, **wish: Any) -> AsyncIterator[None]:
        await self.control("fault", **{"on": on, "kind": kind, "times": None, **wish})
        yield
        async with self.http.delete(f"{self.url}/_emu/mithril/faults") as response:
            assert response.status == 200

    async def billed(self, instance_id: str) -> Decimal:
        books = (await self.control("books"))["books"]
        (book,) = (book for book in books if book["bid_id"] == instance_id)
        return Decimal(book["total"])

    async def control(self, name: str, **wish: Any) -> Any:
        method = "POST" if wish else "GET"
        async with self.http.request(method, f"{self.url}/_emu/mithril/{name}", json=wish or None) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def mithril_harness(root: Path, clock: QuickClock, **config: Any) -> AsyncIterator[MithrilHarness]:
    """``config``: of the sandbox, beside what every test needs."""
    whole = SandboxConfig(state_dir=root / "sandbox", real_processes=False, **config)
    async with running_sandbox(whole, clock) as sandbox, aiohttp.ClientSession() as http:
        made = MithrilHarness(sandbox, http, clock)
        yield made
        await made.provider.close()
