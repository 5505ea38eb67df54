"""The default market: a dozen machines of four GPU models, their prices drawn from the seed.

Spot floors are on average 1/1.7 of the on-demand price. One machine is unverified.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot_lab.sandbox.market.machines import MachineSpec

_SPREAD = 1.7
_CONTRACT_LIFE = timedelta(days=60)


@dataclass(frozen=True)
class _Model:
    gpu_name: str
    ram_mb: int
    compute_cap: int
    tflops: float
    dlperf: float
    mem_bw: float
    on_demand: float
    datacenter: bool
    cpu_name: str


_MODELS = {
    "RTX 3090": _Model("RTX 3090", 24576, 860, 35.6, 37.1, 819.5, 0.22, False, "AMD Ryzen 9 5950X 16-Core Processor"),
    "RTX 4090": _Model("RTX 4090", 24564, 890, 82.6, 97.4, 914.6, 0.42, False, "AMD EPYC 7B13 64-Core Processor"),
    "A100 SXM4": _Model("A100 SXM4", 81920, 800, 19.5, 98.2, 1555.0, 1.05, True, "AMD EPYC 7742 64-Core Processor"),
    "H100 SXM": _Model("H100 SXM", 81559, 900, 67.0, 231.8, 2996.0, 2.35, True, "Intel Xeon Platinum 8480+"),
}

_FLEET: tuple[tuple[str, int, str, bool], ...] = (
    ("RTX 4090", 1, "Washington, US", True),
    ("RTX 4090", 1, "Quebec, CA", True),
    ("RTX 4090", 2, "Norway, NO", True),
    ("RTX 4090", 1, "Poland, PL", True),
    ("RTX 4090", 4, "Texas, US", True),
    ("RTX 3090", 1, "Sweden, SE", True),
    ("RTX 3090", 2, "Germany, DE", True),
    ("RTX 3090", 1, ", US", False),
    ("A100 SXM4", 1, "Virginia, US", True),
    ("A100 SXM4", 8, "Netherlands, NL", True),
    ("H100 SXM", 1, "California, US", True),
    ("H100 SXM", 8, "Iceland, IS", True),
)
"""GPU model, GPUs in the machine, location, verified."""


def default_catalogue(seed: int, start: datetime) -> tuple[MachineSpec, ...]:
    rng = random.Random(seed)  # noqa: S311 - a market drawn from a seed, no secret
    return tuple(
        _machine(43_567 + 101 * index, _MODELS[model], count, place, verified, rng, start)
        for index, (model, count, place, verified) in enumerate(_FLEET)
    )


def _machine(
    machine_id: int, model: _Model, count: int, place: str, verified: bool, rng: random.Random, start: datetime
) -> MachineSpec:
    on_demand = model.on_demand * rng.uniform(0.92, 1.08)
    floor = on_demand / _SPREAD * rng.uniform(0.92, 1.08)
    return MachineSpec(
        machine_id=machine_id,
        host_id=155_381 + machine_id % 97,
        gpu_name=model.gpu_name,
        gpu_count=count,
        gpu_ram_mb=model.ram_mb,
        compute_cap=model.compute_cap,
        tflops_per_gpu=model.tflops,
        dlperf_per_gpu=model.dlperf,
        gpu_mem_bw=model.mem_bw,
        cuda_max_good=13.0,
        driver_version="580.95.05",
        cpu_name=model.cpu_name,
        cpu_cores=32 * count,
        cpu_ram_mb=128_807 * count,
        disk_name="Samsung SSD 990 PRO",
        disk_gb=500.0 * count,
        disk_bw=round(rng.uniform(1500, 5000), 1),
        inet_up_mbps=round(rng.uniform(300, 2000), 1),
        inet_down_mbps=round(rng.uniform(400, 5000), 1),
        inet_up_cost=Decimal("0.0039"),
        inet_down_cost=Decimal("0.002"),
        storage_cost=Decimal(rng.choice(("0.1", "0.15", "0.2"))),
        geolocation=place,
        public_ipaddr=f"203.0.113.{machine_id % 250 + 1}",
        reliability=round(rng.uniform(0.98, 0.9995), 4),
        verified=verified,
        datacenter=model.datacenter,
        min_chunk=1,
        floor=_price(floor),
        on_demand=_price(on_demand),
        end_date=start + _CONTRACT_LIFE + timedelta(hours=rng.randrange(0, 24 * 60)),
    )


def _price(value: float) -> Decimal:
    return Decimal(f"{value:.4f}")
