"""The customer's machines and policies, and the operations that change them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from autopilot_lab.sandbox.host_traits import HostTraits
from autopilot_lab.sandbox.market.metering import Meter


class VmState(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    DELETING = "DELETING"
    ERROR = "ERROR"


class PolicyState(StrEnum):
    CREATING = "STATE_CREATING"
    ACTIVE = "STATE_ACTIVE"
    UPDATING = "STATE_UPDATING"
    DELETING = "STATE_DELETING"


HOLDS_HARDWARE = frozenset({VmState.STARTING, VmState.RUNNING, VmState.STOPPING})
BILLED = frozenset({VmState.RUNNING, VmState.STOPPING})


@dataclass
class MarketOperation:
    """``code`` None: under way; 0: it succeeded. ``error``: serialized ``ServiceError``."""

    id: str
    resource_id: str
    created_at: datetime
    description: str
    code: int | None = None
    message: str = ""
    error: bytes = b""
    finished_at: datetime | None = None


@dataclass
class CapPolicy:
    """``max_price``: $/h of a GPU."""

    id: str
    project: str
    name: str
    platform: str
    max_price: Decimal
    created_at: datetime
    state: PolicyState = PolicyState.CREATING
    version: int = 7


@dataclass(frozen=True)
class VmOrder:
    """What a create asks for. ``policy_id`` empty: it takes any price."""

    project: str
    name: str
    platform: str
    preset: str
    disk_gb: int
    user_data: str
    fails_for_good: bool
    subnet: str = ""
    image_family: str = ""


@dataclass
class Vm:
    id: str
    order: VmOrder
    policy_id: str
    num_gpus: int
    created_at: datetime
    arrival: int
    state: VmState = VmState.STOPPED
    is_settling: bool = True
    is_updating: bool = False
    """Its owner changes something of it in a console."""
    boots: int = 0
    """How often it ran."""
    host: HostTraits = field(default_factory=HostTraits)
    """That it was placed on last."""
    epoch: int = 0
    """Raised by every transition, so that an action scheduled before it does nothing."""
    version: int = 1
    is_asked_to_stop: bool = False
    finds_no_hardware: bool = False
    has_left_disk: bool = False
    """It is gone, and its disk is not."""
    is_gone: bool = False
    pending: MarketOperation | None = None
    """What its present transition belongs to."""
    meter: Meter = field(default_factory=Meter)
