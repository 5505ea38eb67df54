"""The contract suite's grip on machines of one's own: OpenSSH on loopback, and what it does to a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers import registry
from tests.contract.harness import QuickClock
from tests.ssh_machines import OwnMachines

PRICE = "$0.40"


class SshHarness:
    query = OfferQuery((("RTX 4090", 1),), Decimal(20), Decimal(1), verified_only=True, datacenter_only=False)
    capacity_type = CapacityType.ON_DEMAND
    image = "some/image:1"
    onstart = "exec sleep 86400"
    has_wire = True

    def __init__(self, machines: OwnMachines, clock: QuickClock) -> None:
        self._machines = machines
        self._clock = clock
        self._given: set[str] = set()
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        stated = {"gpus": "RTX 4090:2", "vram_gb": 24, "jobs": 2, "price": PRICE}
        each = {name: self._machines.settings(name, **stated) for name in self._machines.names}
        return registry.connect("ssh", {"config_file": self._machines.config_file, "machines": each}, self._clock)

    async def make_offer_available(self) -> Offer:
        offer = next(o for o in await self.provider.offers(self.query) if o.machine_id not in self._given)
        self._given.add(offer.machine_id)
        return offer

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        await asyncio.sleep(0)

    async def outbid(self, instance_id: str) -> Decimal:
        raise NotImplementedError("there are no bids for machines of one's own")

    async def billed(self, instance_id: str) -> Decimal:
        raise NotImplementedError("nobody sends a bill")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        mark = self._machines.root / "lose"
        mark.touch()
        yield
        mark.unlink()

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        mark = self._machines.root / "garble"
        mark.touch()
        yield
        mark.unlink()
