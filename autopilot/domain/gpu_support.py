"""Which CUDA a driver supports, and which CUDA a GPU needs. Pure.

Sources: NVIDIA's CUDA Toolkit release notes (driver versions) and cuda-compatibility/minor-version-compatibility;
developer.nvidia.com/cuda-gpus (compute capabilities); the release notes of the first toolkit that had each of them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from autopilot.domain.host import Arch, HostFacts, driver_order

_CUDA_OF_BRANCH = (
    (590, Decimal("13.1")),
    (580, Decimal("13.0")),
    (575, Decimal("12.9")),
    (570, Decimal("12.8")),
    (565, Decimal("12.7")),
    (560, Decimal("12.6")),
    (555, Decimal("12.5")),
    (550, Decimal("12.4")),
    (545, Decimal("12.3")),
    (535, Decimal("12.2")),
    (530, Decimal("12.1")),
    (525, Decimal("12.0")),
    (520, Decimal("11.8")),
    (515, Decimal("11.7")),
    (510, Decimal("11.6")),
    (495, Decimal("11.5")),
    (470, Decimal("11.4")),
    (465, Decimal("11.3")),
    (460, Decimal("11.2")),
    (455, Decimal("11.1")),
    (450, Decimal("11.0")),
)
"""First number of a driver → the highest CUDA version that it supports, the newest first."""

_CUDA_OF_CAPABILITY = (
    (Decimal("12.1"), Decimal("12.9")),
    (Decimal("12.0"), Decimal("12.8")),
    (Decimal("10.3"), Decimal("12.9")),
    (Decimal("10.0"), Decimal("12.8")),
    (Decimal("8.9"), Decimal("11.8")),
    (Decimal("8.6"), Decimal("11.1")),
    (Decimal("8.0"), Decimal("11.0")),
)
"""Compute capability → the first CUDA version that knows it. Older GPUs are known to every version of today."""

_CAPABILITIES = tuple(
    (re.compile(pattern, re.IGNORECASE), Decimal(capability))
    for pattern, capability in (
        (r"GB10\b", "12.1"),
        (r"RTX (50\d\d|PRO \d{4})", "12.0"),
        (r"G?B300\b", "10.3"),
        (r"G?B200\b", "10.0"),
        (r"(GH200|H[128]00|H20)\b", "9.0"),
        (r"(RTX 40\d\d|L4|L40S?|RTX \d{4} ?Ada)", "8.9"),
        (r"(RTX 30\d\d|RTX A\d{4}|A10|A16|A40)\b", "8.6"),
        (r"(A100|A800|A30)\b", "8.0"),
        (r"(RTX 20\d\d|GTX 16\d\d|Q RTX \d{4}|Titan RTX|Tesla T4)", "7.5"),
        (r"(Tesla V100|Titan V)\b", "7.0"),
        (r"(GTX 10\d\d|Tesla P40)", "6.1"),
        (r"Tesla P100", "6.0"),
    )
)
"""Standard names of GPUs → their compute capability."""


_WITH_ARM = re.compile(r"G[BH]\d{2,3}\b", re.IGNORECASE)
"""GPUs that are one piece with an ARM processor, like GH200 and GB300."""


@lru_cache(maxsize=1024)
def cuda_of_driver(driver: str) -> Decimal | None:
    """The highest CUDA version that the driver supports; of a newer one than the table has, that of its newest.

    None: it is older than all that run programs of CUDA 11, or no driver.
    """
    try:
        branch = driver_order(driver)[0]
    except ValueError:
        return None
    return next((cuda for first, cuda in _CUDA_OF_BRANCH if branch >= first), None)


@lru_cache(maxsize=1024)
def compute_cap_of(gpu: str) -> Decimal | None:
    """By its standard name; None: it is not in the table."""
    return next((capability for pattern, capability in _CAPABILITIES if pattern.match(gpu)), None)


def arch_of(gpu: str, facts: HostFacts) -> Arch | None:
    """As the market states it; else that of the processor that is one piece with the GPU. None: unknown."""
    return facts.arch or (Arch.ARM64 if _WITH_ARM.match(gpu) else None)


def least_cuda_of(gpu: str, facts: HostFacts) -> Decimal | None:
    """The first CUDA version that knows the GPU: an older driver does not run it. None: all of today do, or unknown."""
    capability = facts.compute_cap or compute_cap_of(gpu)
    if capability is None:
        return None
    return next((cuda for least, cuda in _CUDA_OF_CAPABILITY if capability >= least), None)
