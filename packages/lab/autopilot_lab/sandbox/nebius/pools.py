"""What is sold: presets of a platform in a region, and the price and the hardware that they share."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from autopilot_lab.sandbox.host_traits import HostPool, HostTraits

MOST_QUOTES = 31 * 24 * 4
"""A month of them."""


@dataclass(frozen=True)
class PresetSpec:
    name: str
    vcpus: int
    ram_gb: int
    gpus: int


@dataclass(frozen=True)
class PlatformSpec:
    """``on_demand``: $/h of a GPU."""

    name: str
    title: str
    gpu_memory_gb: int
    on_demand: Decimal
    presets: tuple[PresetSpec, ...]


@dataclass(frozen=True)
class PoolSpec:
    """``price``: $/h of a GPU. ``gpus``: that preemptible machines may have."""

    region: str
    platform: PlatformSpec
    price: Decimal
    gpus: int
    hosts: tuple[HostTraits, ...] = ()
    """Of which each launch gets one. None: all are sound."""


@dataclass(frozen=True)
class PriceStep:
    at: datetime
    price: Decimal


@dataclass
class NebiusPool:
    spec: PoolSpec
    sku_id: str
    price: Decimal
    next_price: Decimal
    """From the next quarter of an hour on."""
    gpus: int
    hosts: HostPool
    quotes: deque[PriceStep] = field(default_factory=lambda: deque(maxlen=MOST_QUOTES))

    @property
    def key(self) -> tuple[str, str]:
        return self.spec.region, self.spec.platform.name

    @property
    def highest_cap(self) -> Decimal:
        return self.spec.platform.on_demand - Decimal("0.01")

    def preset(self, name: str) -> PresetSpec | None:
        return next((each for each in self.spec.platform.presets if each.name == name), None)
