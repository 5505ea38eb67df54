"""Instances: rented machines as their market describes them at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.offer import CapacityType


class InstanceStatus(StrEnum):
    PROVISIONING = "provisioning"
    """Rented, not yet running: image pull, container start. Storage bills, compute does not."""
    RUNNING = "running"
    """Compute and storage bill."""
    STOPPED = "stopped"
    """Disk kept and billed. Outbid, stopped by us, out of credit and expired all look like this."""
    OFFLINE = "offline"
    """The host does not answer; nothing bills."""


@dataclass(frozen=True, slots=True)
class Instance:
    provider: str
    instance_id: str
    label: str
    machine_id: str
    host_id: str
    capacity_type: CapacityType
    status: InstanceStatus
    intended_running: bool
    """What the market means it to do. False on a stop by anybody; True while a start is queued."""
    rate: Decimal
    """$/h of compute while it runs: the standing bid on spot, the locked price on demand."""
    storage_rate: Decimal
    """$/h of the disk."""
    gpu: str
    num_gpus: int
    ends_at: datetime | None
    message: str
    """The market's own words on its state; for people only."""


@dataclass(frozen=True, slots=True)
class Account:
    credit: Decimal | None
    """Spendable dollars; may be negative. None: the market has no way to tell."""


class CostKind(StrEnum):
    COMPUTE = "compute"
    STORAGE = "storage"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True, slots=True)
class Charge:
    """One line that the market itself billed: authoritative, late, rounded."""

    instance_id: str
    day: date
    kind: CostKind
    amount: Decimal
