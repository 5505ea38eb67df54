"""The paper market around the sandbox's vast.ai market."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from autopilot.domain.instance import CostKind
from autopilot.domain.money import ZERO, accrue
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.time import utc_day
from autopilot.ports.provider import Provider
from autopilot.providers.paper.adapter import PaperProvider, PaperSettings
from tests.contract.harness import QuickClock
from tests.contract.vastai_harness import QUERY, VastaiHarness, vastai_harness

NAME = "paper-vastai"


class PaperHarness:
    """``market`` is the real one. Paper has no wire of its own; what can fail in its place is the disk."""

    query = QUERY
    image = "some/image:1"
    onstart = ""
    """No orders, no agent."""
    has_wire = True

    def __init__(self, market: VastaiHarness, state_file: Path) -> None:
        self.market = market
        self.capacity_type = market.capacity_type
        self._state_file = state_file
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        self.real = self.market.connect()
        return PaperProvider(NAME, self.real, PaperSettings(self._state_file), self.market.clock)

    async def make_offer_available(self) -> Offer:
        return min(await self.provider.offers(self.query), key=lambda offer: offer.on_demand_price or 99)

    async def advance(self, seconds: float) -> None:
        await self.market.advance(seconds)

    async def outbid(self, instance_id: str) -> Decimal:
        instance = await self.provider.instance(instance_id)
        assert instance is not None
        price = instance.bid + Decimal("0.050")
        await self.market.control("floor", machine_id=int(instance.machine_id), price=str(price))
        await self.advance(120)  # a search is good for a minute
        return instance.bid + Decimal("0.060")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        async with self._unwritable():
            yield

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        async with self._unwritable():
            await self.advance(300)  # what loads comes up, which cannot be written down
            yield

    @asynccontextmanager
    async def _unwritable(self) -> AsyncIterator[None]:
        """Puts a directory where the new state would be written."""
        in_the_way = self._state_file.with_suffix(".new")
        in_the_way.mkdir(parents=True)
        yield
        in_the_way.rmdir()

    async def billed(self, instance_id: str) -> Decimal:
        """From the spans on disk: rate by time, of each kind and day in one piece."""
        totals: dict[tuple[CostKind, object], Decimal] = {}
        for span in json.loads(self._state_file.read_text())[instance_id]["spans"]:
            start, end = (datetime.fromisoformat(span[key]) for key in ("started_at", "ended_at"))
            assert utc_day(start) == utc_day(end), "the test is to be kept within one day"
            for kind, rate in (
                (CostKind.COMPUTE, span["billed_rate"]),
                (CostKind.STORAGE_RUNNING, span["storage_rate"]),
            ):
                key = kind, utc_day(start)
                totals[key] = totals.get(key, ZERO) + accrue(Decimal(rate), end - start)
        return sum(totals.values(), ZERO)


@asynccontextmanager
async def paper_harness(root: Path, clock: QuickClock, capacity_type: CapacityType) -> AsyncIterator[PaperHarness]:
    async with vastai_harness(root, clock, capacity_type) as market:
        made = PaperHarness(market, root / "paper" / "vastai.json")
        yield made
        await made.provider.close()
