"""What is auctioned: a kind of machine in a region, and the strangers who bid for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from autopilot_lab.sandbox.host_traits import HostPool, HostTraits
from autopilot_lab.sandbox.mithril.auction import Cleared

MOST_SAMPLES = 30 * 24 * 30
"""A month of rounds."""


@dataclass(frozen=True)
class TypeSpec:
    """``name``: like ``h100-80gb.sxm.8x``."""

    id: str
    name: str
    gpu_type: str
    gpu_socket: str
    num_gpus: int
    gpu_memory_gb: int
    num_cpus: int
    ram_gb: int
    local_storage_gb: int


@dataclass(frozen=True)
class AuctionPoolSpec:
    """``minimum``: $/h of one machine. ``slots``: machines that are not reserved."""

    region: str
    type: TypeSpec
    slots: int
    minimum: Decimal
    hosts: tuple[HostTraits, ...] = ()
    """Of which each launch gets one. None: all are sound."""


@dataclass
class Rival:
    id: str
    limit: Decimal
    quantity: int
    arrival: int


class Sample(NamedTuple):
    at: datetime
    price: Decimal


@dataclass
class AuctionPool:
    spec: AuctionPoolSpec
    id: str
    minimum: Decimal
    slots: int
    cleared: Cleared
    """Of the newest round."""
    hosts: HostPool
    highest: Decimal | None = None
    """$/h of one machine: no limit above it is taken."""
    rivals: dict[str, Rival] = field(default_factory=dict)
    history: deque[Sample] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    @property
    def key(self) -> tuple[str, str]:
        return self.spec.region, self.spec.type.id
