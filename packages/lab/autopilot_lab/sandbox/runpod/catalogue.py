"""The default RunPod market: its GPU models and a fleet in both clouds, floors drawn from the seed."""

from __future__ import annotations

import hashlib
import random
from decimal import Decimal

from autopilot_lab.sandbox.runpod.machines import Cloud, GpuType, MachineSpec

GPU_TYPES = {
    gpu_type.id: gpu_type
    for gpu_type in (
        GpuType("NVIDIA RTX A4000", "RTX A4000", "AMPERE_16", 16),
        GpuType("NVIDIA GeForce RTX 3090", "RTX 3090", "AMPERE_24", 24),
        GpuType("NVIDIA GeForce RTX 4090", "RTX 4090", "ADA_24", 24),
        GpuType("NVIDIA RTX A6000", "RTX A6000", "AMPERE_48", 48),
        GpuType("NVIDIA A100 80GB PCIe", "A100 PCIe", "AMPERE_80", 80),
        GpuType("NVIDIA A100-SXM4-80GB", "A100 SXM", "AMPERE_80", 80),
        GpuType("NVIDIA H100 80GB HBM3", "H100 SXM", "HOPPER_80", 80),
    )
}

DATA_CENTERS = {
    "EU-RO-1": ("Romania 1", "RO"),
    "EU-SE-1": ("Sweden 1", "SE"),
    "US-KS-2": ("US Kansas 2", "US"),
    "CA-MTL-1": ("Canada Montreal 1", "CA"),
}
"""Name and country."""

_ON_DEMAND = {
    ("NVIDIA RTX A4000", Cloud.SECURE): "0.35",
    ("NVIDIA RTX A4000", Cloud.COMMUNITY): "0.24",
    ("NVIDIA GeForce RTX 3090", Cloud.COMMUNITY): "0.30",
    ("NVIDIA GeForce RTX 4090", Cloud.SECURE): "0.69",
    ("NVIDIA GeForce RTX 4090", Cloud.COMMUNITY): "0.44",
    ("NVIDIA RTX A6000", Cloud.SECURE): "0.49",
    ("NVIDIA A100 80GB PCIe", Cloud.SECURE): "1.64",
    ("NVIDIA A100 80GB PCIe", Cloud.COMMUNITY): "1.19",
    ("NVIDIA A100-SXM4-80GB", Cloud.SECURE): "1.74",
    ("NVIDIA H100 80GB HBM3", Cloud.SECURE): "2.69",
}
"""$/h per GPU: one list price for each model and cloud."""

_FLEET: tuple[tuple[str, Cloud, str, int, bool], ...] = (
    ("NVIDIA RTX A4000", Cloud.SECURE, "EU-RO-1", 4, True),
    ("NVIDIA RTX A4000", Cloud.COMMUNITY, "SE", 2, True),
    ("NVIDIA GeForce RTX 3090", Cloud.COMMUNITY, "PL", 1, True),
    ("NVIDIA GeForce RTX 3090", Cloud.COMMUNITY, "US", 4, True),
    ("NVIDIA GeForce RTX 4090", Cloud.SECURE, "US-KS-2", 8, True),
    ("NVIDIA GeForce RTX 4090", Cloud.COMMUNITY, "CA", 1, True),
    ("NVIDIA GeForce RTX 4090", Cloud.COMMUNITY, "NO", 2, True),
    ("NVIDIA RTX A6000", Cloud.SECURE, "EU-SE-1", 4, True),
    ("NVIDIA A100 80GB PCIe", Cloud.SECURE, "CA-MTL-1", 2, False),
    ("NVIDIA A100 80GB PCIe", Cloud.COMMUNITY, "US", 1, True),
    ("NVIDIA A100-SXM4-80GB", Cloud.SECURE, "US-KS-2", 8, True),
    ("NVIDIA H100 80GB HBM3", Cloud.SECURE, "EU-SE-1", 8, True),
)
"""Model, cloud, data centre (Secure) or country (Community), GPUs, whether on spot."""

_FLOOR_SHARE = (0.47, 0.67)
"""A floor is this share of the on-demand price."""


def default_catalogue(seed: int) -> tuple[MachineSpec, ...]:
    rng = random.Random(f"runpod:{seed}")  # noqa: S311 - a market drawn from a seed, no secret
    return tuple(_machine(index, *row, rng) for index, row in enumerate(_FLEET))


def _machine(
    index: int, model: str, cloud: Cloud, place: str, gpu_count: int, on_spot: bool, rng: random.Random
) -> MachineSpec:
    gpu_type = GPU_TYPES[model]
    on_demand = Decimal(_ON_DEMAND[model, cloud])
    floor = Decimal(f"{float(on_demand) * rng.uniform(*_FLOOR_SHARE):.3f}")
    secure = cloud is Cloud.SECURE
    return MachineSpec(
        machine_id=hashlib.sha256(f"machine:{index}".encode()).hexdigest()[:12],
        gpu_type=gpu_type,
        gpu_count=gpu_count,
        cloud=cloud,
        data_center_id=place if secure else None,
        country=DATA_CENTERS[place][1] if secure else place,
        floor=floor if on_spot else None,
        on_demand=on_demand,
        vcpus_per_gpu=8 if secure else 6,
        memory_gb_per_gpu=max(31, gpu_type.memory_gb + 13),
        disk_gb=2000 * gpu_count,
        download_mbps=rng.randrange(400, 5000),
        upload_mbps=rng.randrange(300, 2000),
        cuda_version=rng.choice(("12.4", "12.8")),
        public_ip=f"198.51.100.{index + 1}",
    )
