"""Machines, the chunks of GPUs that they rent out, and the other customers on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from autopilot_lab.sandbox.host_traits import SOUND, HostTraits, Truth

Chunk = tuple[int, ...]
"""GPU ids that are rented together. The chunks of a machine overlap: renting one blocks the others it touches."""


class HostState(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"
    VANISHED = "vanished"


@dataclass(frozen=True)
class MachineSpec:
    """Facts of a machine that do not change. Prices are dollars: per GPU-hour, per GB-month, per GB."""

    machine_id: int
    host_id: int
    gpu_name: str
    gpu_count: int
    gpu_ram_mb: int
    compute_cap: int
    tflops_per_gpu: float
    dlperf_per_gpu: float
    gpu_mem_bw: float
    cuda_max_good: float
    driver_version: str
    cpu_name: str
    cpu_cores: int
    cpu_ram_mb: int
    disk_name: str
    disk_gb: float
    disk_bw: float
    inet_up_mbps: float
    inet_down_mbps: float
    inet_up_cost: Decimal
    inet_down_cost: Decimal
    storage_cost: Decimal
    geolocation: str
    public_ipaddr: str
    reliability: float
    verified: bool
    datacenter: bool
    min_chunk: int
    floor: Decimal
    on_demand: Decimal
    end_date: datetime
    cpu_arch: str = "amd64"
    truth: Truth = SOUND

    @property
    def traits(self) -> HostTraits:
        region, _, country = self.geolocation.rpartition(", ")
        return HostTraits(
            self.driver_version,
            f"{self.cuda_max_good:.1f}",
            self.compute_cap,
            self.cpu_arch,
            self.cpu_cores,
            self.cpu_ram_mb // 1000,
            self.disk_bw,
            self.inet_down_mbps,
            self.inet_up_mbps,
            country,
            region,
            self.reliability,
            self.truth,
        )

    @property
    def gpu_ids(self) -> Chunk:
        first = self.machine_id * 100
        return tuple(range(first, first + self.gpu_count))

    def chunks(self) -> tuple[Chunk, ...]:
        """Aligned blocks of every power of two from ``min_chunk`` up, and the whole machine."""
        found: list[Chunk] = []
        size = self.min_chunk
        while size <= self.gpu_count:
            blocks = range(0, self.gpu_count - size + 1, size)
            found.extend(self.gpu_ids[start : start + size] for start in blocks)
            size *= 2
        if self.gpu_ids not in found:
            found.append(self.gpu_ids)
        return tuple(found)


@dataclass
class Stranger:
    """Another customer: a rival's bid in $/h for its whole GPU set, or an on-demand rental (``bid`` is ``None``)."""

    id: str
    gpu_ids: Chunk
    bid: Decimal | None
    arrival: int
    holding: bool = False

    @property
    def price_per_gpu(self) -> Fraction | None:
        return None if self.bid is None else Fraction(self.bid) / len(self.gpu_ids)


@dataclass
class Machine:
    spec: MachineSpec
    floor: Decimal
    """Lowest bid that the host takes, $/h per GPU."""
    state: HostState = HostState.ONLINE
    is_full: bool = False
    """It takes no new tenant, and is listed all the same."""
    offer_ids: dict[Chunk, int] = field(default_factory=dict)
    strangers: dict[str, Stranger] = field(default_factory=dict)

    def floor_of(self, chunk: Chunk) -> Decimal:
        return self.floor * len(chunk)

    def on_demand_of(self, chunk: Chunk) -> Decimal:
        return self.spec.on_demand * len(chunk)
