"""Options about the machine around the GPUs: the keys of ``[resources]``, on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Annotated

from cyclopts import Parameter

from autopilot.config.draft import Value


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Each as the key of [resources] of the same name."""

    cuda: Annotated[
        str | None, Parameter(help="CUDA version that the driver supports, like 12.8; 12 for any 12.x.")
    ] = None
    driver: Annotated[str | None, Parameter(help="Oldest NVIDIA driver, like 550.54.14.")] = None
    cpus: Annotated[int | None, Parameter(help="Minimum CPUs of the machine.")] = None
    ram: Annotated[str | None, Parameter(help="Minimum memory of the machine, like 64GB.")] = None
    shm: Annotated[str | None, Parameter(help="Minimum /dev/shm, like 16GB.")] = None
    disk_speed: Annotated[str | None, Parameter(help="Minimum speed of the disk, like 500MB/s.")] = None
    download: Annotated[str | None, Parameter(help="Minimum download rate, like 200Mbps.")] = None
    upload: Annotated[str | None, Parameter(help="Minimum upload rate, like 100Mbps.")] = None
    reliability: Annotated[Decimal | None, Parameter(help="Minimum reliability that the market states, like 0.99.")] = (
        None
    )
    country: Annotated[str | None, Parameter(help='Countries, like "DE | FR".')] = None
    region: Annotated[str | None, Parameter(help='Parts of the world or regions of a market, like "europe".')] = None
    arch: Annotated[str | None, Parameter(help="Architecture of the processor, amd64 or arm64.")] = None
    datacenter: Annotated[bool, Parameter(negative="", help="Only hosts in data centres.")] = False

    def to_keys(self) -> dict[str, Value]:
        """Those that are given."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in given if value not in (None, "", False)}


ANY_HOST = HostOptions()
