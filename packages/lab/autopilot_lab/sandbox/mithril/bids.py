"""The customer's bids, and the machines that they win."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from autopilot_lab.sandbox.host_traits import HostTraits
from autopilot_lab.sandbox.market.metering import Meter


class BidStatus(StrEnum):
    OPEN = "Open"
    ALLOCATED = "Allocated"
    PREEMPTING = "Preempting"
    PAUSED = "Paused"
    TERMINATED = "Terminated"


class MachineStatus(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RELOCATING = "RELOCATING"
    PREEMPTING = "PREEMPTING"
    STOPPING = "STOPPING"
    PREEMPTED = "PREEMPTED"
    PAUSED = "PAUSED"
    REPLACED = "REPLACED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"


BILLED = frozenset({MachineStatus.RUNNING, MachineStatus.RELOCATING, MachineStatus.PREEMPTING, MachineStatus.STOPPING})
IN_THE_AUCTION = frozenset({BidStatus.OPEN, BidStatus.ALLOCATED, BidStatus.PREEMPTING})


@dataclass(frozen=True)
class BidOrder:
    """What a create asks for. ``limit``: $/h of one machine."""

    name: str
    project: str
    region: str
    type_id: str
    limit: Decimal
    quantity: int
    ssh_keys: tuple[str, ...]
    startup_script: str
    volumes: tuple[str, ...] = ()


@dataclass
class Machine:
    id: str
    status: MachineStatus
    created_at: datetime
    end_time: datetime | None = None
    """When a machine that was given notice stops."""
    host: HostTraits = field(default_factory=HostTraits)


@dataclass
class Bid:
    """``machines``: oldest first, replaced ones included."""

    id: str
    order: BidOrder
    limit: Decimal
    created_at: datetime
    arrival: int
    status: BidStatus = BidStatus.OPEN
    deactivated_at: datetime | None = None
    machines: list[Machine] = field(default_factory=list)
    boots: int = 0
    """How often a machine of it ran."""
    epoch: int = 0
    """Raised by every transition of the machine, so that an action scheduled before it does nothing."""
    shown_as: str = ""
    """A word shown in place of its status; empty: the status is shown."""
    is_defective: bool = False
    """Its machines do not come up."""
    meter: Meter = field(default_factory=Meter)

    @property
    def machine(self) -> Machine | None:
        """The one that it has now, in any state."""
        over = (MachineStatus.REPLACED, MachineStatus.TERMINATED)
        return next((each for each in reversed(self.machines) if each.status not in over), None)

    @property
    def is_over(self) -> bool:
        return self.status is BidStatus.TERMINATED
