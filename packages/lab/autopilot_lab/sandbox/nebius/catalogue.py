"""The default market: three platforms in two regions, with prices drawn from the seed."""

from __future__ import annotations

import random
from decimal import Decimal

from autopilot_lab.sandbox.nebius.pools import PlatformSpec, PoolSpec, PresetSpec

H100 = PlatformSpec(
    "gpu-h100-sxm",
    "NVIDIA H100 NVLink",
    80,
    Decimal("4.50"),
    (PresetSpec("1gpu-16vcpu-200gb", 16, 200, 1), PresetSpec("8gpu-128vcpu-1600gb", 128, 1600, 8)),
)
H200 = PlatformSpec(
    "gpu-h200-sxm",
    "NVIDIA H200 NVLink",
    141,
    Decimal("5.40"),
    (PresetSpec("1gpu-16vcpu-200gb", 16, 200, 1), PresetSpec("8gpu-128vcpu-1600gb", 128, 1600, 8)),
)
RTX6000 = PlatformSpec(
    "gpu-rtx6000", "NVIDIA RTX PRO 6000", 96, Decimal("1.80"), (PresetSpec("1gpu-24vcpu-218gb", 24, 218, 1),)
)

PROJECTS = {"eu-north1": "project-e00sandbox", "us-central1": "project-u00sandbox"}
"""Region → the project there."""
TENANT, CONTRACT = "tenant-e00sandbox", "contract-e00sandbox"

_POOLS: tuple[tuple[str, PlatformSpec, int, float], ...] = (
    ("eu-north1", H100, 16, 1.95),
    ("eu-north1", H200, 16, 2.20),
    ("eu-north1", RTX6000, 4, 0.70),
    ("us-central1", H200, 8, 2.30),
    ("us-central1", RTX6000, 4, 0.75),
)
"""Region, platform, GPUs, about the price."""


def default_catalogue(seed: int) -> tuple[PoolSpec, ...]:
    rng = random.Random(f"nebius:{seed}")  # noqa: S311 - a market drawn from a seed, no secret
    return tuple(
        PoolSpec(region, platform, Decimal(f"{price * rng.uniform(0.95, 1.05):.2f}"), gpus)
        for region, platform, gpus, price in _POOLS
    )
