"""The machine around the GPUs: what a market says of it, and what a job asks of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Arch(StrEnum):
    """Of the processor, as images name it."""

    AMD64 = "amd64"
    ARM64 = "arm64"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a market says of the machine that an offer is of. None or empty: it says nothing.

    Processors and memory are those of the whole offer, all its GPUs together.
    """

    cuda: Decimal | None = None
    """The highest CUDA version that its driver supports, like 12.8."""
    driver: str = ""
    """NVIDIA's driver, like 580.95.05."""
    compute_cap: Decimal | None = None
    """Of its GPUs, like 8.9."""
    arch: Arch | None = None
    cpus: Decimal | None = None
    ram_gb: Decimal | None = None
    shm_gb: Decimal | None = None
    """``/dev/shm``."""
    disk_mb_per_s: Decimal | None = None
    least_download_mbps: Decimal | None = None
    """What its market was asked to hold to, where it states no speed: ``Offer.download_mbps`` is unknown then."""
    upload_mbps: Decimal | None = None
    country: str = ""
    """Two letters of ISO 3166, upper case."""
    region: str = ""
    """As the market itself names it, like eu-north1."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """What a job asks of the machine: the least of each, None or empty for no matter.

    Processors and memory are those of the whole machine that is rented, all its GPUs together.
    """

    cuda: Decimal | None = None
    """The driver supports this CUDA version. A bare major version asks for a driver that runs all programs of it:
    12 is 12.0, drivers from 525 on, by NVIDIA's minor-version compatibility."""
    driver: str = ""
    arch: Arch | None = None
    cpus: Decimal | None = None
    ram_gb: Decimal | None = None
    shm_gb: Decimal | None = None
    disk_mb_per_s: Decimal | None = None
    reliability: Decimal | None = None
    download_mbps: Decimal | None = None
    upload_mbps: Decimal | None = None
    countries: tuple[str, ...] = ()
    """Any of them."""
    regions: tuple[str, ...] = ()
    """Any of them: a part of the world, or a region as its market names it."""
    datacenter: bool = False


NO_FACTS = HostFacts()
NO_NEEDS = HostNeeds()

KEYS = {
    "cuda": "cuda",
    "driver": "driver",
    "arch": "arch",
    "cpus": "cpus",
    "ram": "ram_gb",
    "shm": "shm_gb",
    "disk_speed": "disk_mb_per_s",
    "reliability": "reliability",
    "download": "download_mbps",
    "upload": "upload_mbps",
    "country": "countries",
    "region": "regions",
    "datacenter": "datacenter",
}
"""Key of ``[resources]`` → the field of ``HostNeeds`` that takes its value."""
KEY_OF = {field: key for key, field in KEYS.items()}

_IN_WORDS = {
    "cuda": "CUDA {}",
    "driver": "driver {}",
    "arch": "{}",
    "cpus": "{} CPUs",
    "ram_gb": "{} GB of RAM",
    "shm_gb": "{} GB of /dev/shm",
    "disk_mb_per_s": "a disk of {} MB/s",
    "reliability": "reliability {}",
    "download_mbps": "{} Mbps down",
    "upload_mbps": "{} Mbps up",
    "countries": "in {}",
    "regions": "in {}",
    "datacenter": "in a datacenter",
}


def describe(needs: HostNeeds) -> str:
    """``CUDA 12.8, 64 GB of RAM, in DE or FR``; empty: nothing is asked."""
    asked = ((words, getattr(needs, field)) for field, words in _IN_WORDS.items())
    return ", ".join(words.format(_show(value)) for words, value in asked if value)


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return " or ".join(value)
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


_DRIVER = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,3}", re.ASCII)


def driver_order(driver: str) -> tuple[int, ...]:
    """Of two drivers the newer one has the greater. Raises ``ValueError`` for what is no driver's version."""
    if not _DRIVER.fullmatch(driver):
        raise ValueError(f"not the version of a driver: {driver!r}")
    numbers = [int(part) for part in driver.split(".")]
    while numbers[1:] and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
