"""The sandbox's Nebius market behind the adapter and the vendor's own SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers.nebius import plugin
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

KEY = "nebius-sandbox-key"


class NebiusHarness:
    """``control`` calls the market's control API, ``POST`` with a wish and ``GET`` without one."""

    query = OfferQuery(
        gpus=(("H200", 1),),
        min_vram_gb=Decimal(40),
        disk_gb=Decimal(40),
        verified_only=True,
        datacenter_only=False,
    )
    image = "some/image:1"
    onstart = "true"
    has_wire = True
    capacity_type = CapacityType.SPOT

    def __init__(self, sandbox: Sandbox, http: aiohttp.ClientSession, clock: QuickClock, **settings: Any) -> None:
        self.sandbox = sandbox
        self.url = sandbox.url
        self.http = http
        self.clock = clock
        self._settings = settings
        self.provider: Provider = self.connect()

    def connect(self, **settings: Any) -> Provider:
        given = {
            "base_url": self.sandbox.nebius_address,
            "api_key": KEY,
            "projects": PROJECTS,
            "timeout_s": PATIENCE_S,
        }
        return plugin.connect({**given, **self._settings, **settings}, self.clock)

    async def make_offer_available(self) -> Offer:
        """An offer is a pool of machines: the cheapest has room for more than one."""
        return min(await self.provider.offers(self.query), key=lambda offer: offer.floor or 99)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def outbid(self, instance_id: str) -> Decimal:
        """The machine has one GPU: its bid is its cap."""
        instance = await self.provider.instance(instance_id)
        assert instance is not None
        await self.control("price", vm_id=instance_id, price=str(instance.bid + Decimal("0.05")))
        self.clock.advance(900)
        return instance.bid + Decimal("0.06")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        async with self.fault("create", "effect_then_unavailable"):
            yield

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        async with self.fault("list", "garbled"):
            yield

    @asynccontextmanager
    async def fault(self, on: str, kind: str, **wish: Any) -> AsyncIterator[None]:
        await self.control("fault", **{"on": on, "kind": kind, "times": None, **wish})
        yield
        async with self.http.delete(f"{self.url}/_emu/nebius/faults") as response:
            assert response.status == 200

    async def billed(self, instance_id: str) -> Decimal:
        books = (await self.control("books"))["books"]
        (book,) = (book for book in books if book["vm_id"] == instance_id)
        return Decimal(book["total"])

    async def control(self, name: str, **wish: Any) -> Any:
        method = "POST" if wish else "GET"
        async with self.http.request(method, f"{self.url}/_emu/nebius/{name}", json=wish or None) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def nebius_harness(
    root: Path, clock: QuickClock, settings: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[NebiusHarness]:
    """``settings``: of the adapter. ``config``: of the sandbox, beside what every test needs."""
    whole = SandboxConfig(state_dir=root / "sandbox", real_processes=False, nebius_port=0, **config)
    async with running_sandbox(whole, clock) as sandbox, aiohttp.ClientSession() as http:
        made = NebiusHarness(sandbox, http, clock, **(settings or {}))
        yield made
        await made.provider.close()
