"""The default market: three kinds of machine in a few regions, with prices drawn from the seed."""

from __future__ import annotations

import random
from decimal import Decimal

from autopilot_lab.sandbox.mithril.pools import AuctionPoolSpec, TypeSpec

A100_1 = TypeSpec("it_a100x1", "a100-80gb.sxm.1x", "a100-80gb", "sxm", 1, 80, 16, 200, 1000)
A100_8 = TypeSpec("it_a100x8", "a100-80gb.sxm.8x", "a100-80gb", "sxm", 8, 80, 128, 1600, 8000)
H100_8 = TypeSpec("it_h100x8", "h100-80gb.sxm.8x", "h100-80gb", "sxm", 8, 80, 192, 1800, 12000)
B200_8 = TypeSpec("it_b200x8", "b200.8x", "b200", "sxm", 8, 180, 224, 2800, 28000)

_POOLS: tuple[tuple[str, TypeSpec, int, float], ...] = (
    ("us-central5-a", A100_1, 4, 1.00),
    ("us-central2-a", A100_1, 3, 1.10),
    ("eu-central1-a", A100_1, 2, 1.20),
    ("us-central5-a", A100_8, 2, 7.60),
    ("us-central5-a", H100_8, 2, 14.00),
    ("us-central2-a", H100_8, 1, 15.00),
    ("us-central5-a", B200_8, 1, 18.00),
)
"""Region, kind of machine, machines, about the least price ($/h of one machine)."""


def default_catalogue(seed: int) -> tuple[AuctionPoolSpec, ...]:
    rng = random.Random(f"mithril:{seed}")  # noqa: S311 - a market drawn from a seed, no secret
    # Kinds have one id per region.
    return tuple(
        AuctionPoolSpec(region, _in_region(kind, region), slots, Decimal(f"{price * rng.uniform(0.95, 1.05):.2f}"))
        for region, kind, slots, price in _POOLS
    )


def _in_region(kind: TypeSpec, region: str) -> TypeSpec:
    short = region.replace("central", "").replace("-", "")
    return TypeSpec(
        f"{kind.id}{short}", kind.name, kind.gpu_type, kind.gpu_socket, kind.num_gpus, kind.gpu_memory_gb,
        kind.num_cpus, kind.ram_gb, kind.local_storage_gb,
    )  # fmt: skip
