from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot_lab.sandbox.catalogue import default_catalogue
from autopilot_lab.sandbox.market.instances import Contract, RentOrder
from autopilot_lab.sandbox.market.market import SandboxMarket

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Trader:
    """One machine's customer in short words. Prices are strings of $/h."""

    def __init__(self, market: SandboxMarket, machine_id: int) -> None:
        self.market = market
        self.machine_id = machine_id

    def rent(self, price: str | None, *, gpus: int = 1, **order: Any) -> Contract:
        machine = self.market.machines[self.machine_id]
        chunk = next(chunk for chunk in machine.spec.chunks() if len(chunk) == gpus)
        wish = RentOrder(
            machine.offer_ids[chunk],
            "image",
            Decimal(10),
            None if price is None else Decimal(price),
            **order,
        )
        return self.market.create(wish)

    def rival(self, bid: str, duration_s: float | None = None) -> str:
        gpu_ids = self.market.machines[self.machine_id].spec.gpu_ids
        return self.market.add_rival(self.machine_id, gpu_ids, Decimal(bid), duration_s).id

    def on_demand_customer(self, duration_s: float | None = None) -> str:
        gpu_ids = self.market.machines[self.machine_id].spec.gpu_ids
        return self.market.add_on_demand(self.machine_id, gpu_ids, duration_s).id

    def wait(self, seconds: float) -> None:
        self.market.advance_to(self.market.now + timedelta(seconds=seconds))

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.market.journal.entries]


@pytest.fixture
def open_market() -> Callable[..., Trader]:
    """A market of the default catalogue and a customer of its first machine with that many GPUs; floor 0.10."""

    def build(*, gpus: int = 1, **options: Any) -> Trader:
        market = SandboxMarket(default_catalogue(7, START), START, **options)
        machine = next(m for m in market.machines.values() if m.spec.gpu_count == gpus)
        machine.floor = Decimal("0.10")
        return Trader(market, machine.spec.machine_id)

    return build


@pytest.fixture
def trader(open_market: Callable[..., Trader]) -> Trader:
    return open_market()
