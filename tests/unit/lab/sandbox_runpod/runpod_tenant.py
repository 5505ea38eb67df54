"""A customer of RunPod's market in short words."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Pod, PodOrder

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Tenant:
    """A customer of the RTX 3090s with four GPUs (floor 0.10, on demand 0.30) in short words. Prices per GPU."""

    def __init__(self, market: PodMarket) -> None:
        self.market = market
        market.machines = {
            key: machine for key, machine in market.machines.items() if machine.spec.gpu_type.display_name == "RTX 3090"
        }
        self.machine = next(machine for machine in market.machines.values() if machine.spec.gpu_count == 4)
        market.machines = {self.machine.spec.machine_id: self.machine}
        self.machine.floor = Decimal("0.10")

    def rent(self, bid: str | None = "0.20", **order: Any) -> Pod:
        price = None if bid is None else Decimal(bid)
        return self.market.rent(PodOrder("image", ("NVIDIA GeForce RTX 3090",), bid=price, **order))

    def rival(self, bid: str | None, gpu_count: int = 4) -> str | None:
        stranger = self.market.add_stranger("rival", self.machine, gpu_count, None if bid is None else Decimal(bid))
        return None if stranger is None else stranger.id

    def wait(self, seconds: float) -> None:
        self.market.advance_to(self.market.now + timedelta(seconds=seconds))

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.market.journal.entries]

    def times(self, kind: str) -> list[float]:
        """Seconds since the start."""
        return [(each.at - START).total_seconds() for each in self.market.journal.entries if each.kind == kind]
