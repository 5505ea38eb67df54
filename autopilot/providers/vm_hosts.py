"""What is known of a virtual machine that is rented whole."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.host import HostFacts
from autopilot.domain.places import country_of_region

SHM_SHARE = 2
"""Linux gives ``/dev/shm`` half of the memory, and our container uses the machine's own (``IpcMode`` host)."""


def facts_of_vm(region: str, cpus: Decimal | None, ram_gb: Decimal | None, cuda: Decimal | None = None) -> HostFacts:
    """``cuda``: that the driver of its boot image supports."""
    return HostFacts(
        cuda=cuda,
        cpus=cpus,
        ram_gb=ram_gb,
        shm_gb=None if ram_gb is None else ram_gb / SHM_SHARE,
        country=country_of_region(region),
        region=region,
    )
