"""One rented pod and everything the market knows about it.

``status`` is intent, as RunPod's ``desiredStatus`` is: RUNNING at once, while the image is still being pulled. What
runs is ``container``. A pod holds its GPUs exactly while it is RUNNING.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import PurePosixPath

from autopilot_lab.sandbox.market.metering import Meter
from autopilot_lab.sandbox.runpod.machines import Cloud, Requirements
from autopilot_lab.sandbox.units import HOURS_PER_STORAGE_MONTH

CONTAINER_DISK_PRICE = VOLUME_PRICE = Fraction(10, 100)
"""$/GB-month while the pod runs; a stopped pod's container disk is gone and costs nothing."""
STOPPED_VOLUME_PRICE = Fraction(20, 100)
SMALL_NETWORK_VOLUME_PRICE, LARGE_NETWORK_VOLUME_PRICE = Fraction(7, 100), Fraction(5, 100)
LARGE_NETWORK_VOLUME_GB = 1000

ANY_MACHINE = Requirements()
DEFAULT_MOUNT = PurePosixPath("workspace")


class PodType(StrEnum):
    INTERRUPTABLE = "INTERRUPTABLE"
    RESERVED = "RESERVED"


class Status(StrEnum):
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    TERMINATED = "TERMINATED"


class Container(StrEnum):
    ABSENT = "absent"
    CREATING = "creating"
    RUNNING = "running"
    RESTARTING = "restarting"
    """The command ended by itself; it is started again after a moment."""


class Cause(StrEnum):
    """Why a pod is stopped or gone."""

    OUTBID = "outbid"
    DISPLACED = "displaced"
    USER = "user"
    BOOT_FAILED = "boot_failed"
    OUT_OF_BALANCE = "out_of_balance"
    TIMER = "timer"
    """``stopAfter`` or ``terminateAfter``."""


class Defect(StrEnum):
    """A start that never succeeds; for tests of boot timeouts."""

    NO_RUNTIME = "no_runtime"
    BOOT_FAILED = "boot_failed"


@dataclass(frozen=True)
class PodOrder:
    """What a create call asks for. ``bid`` ($/h per GPU) is ``None`` for on-demand."""

    image: str
    gpu_type_ids: tuple[str, ...]
    bid: Decimal | None = None
    name: str = ""
    gpu_count: int = 1
    requirements: Requirements = ANY_MACHINE
    args: str = ""
    env: tuple[tuple[str, str], ...] = ()
    ports: tuple[str, ...] = ()
    container_disk_gb: int = 10
    volume_gb: int = 0
    mount: PurePosixPath = DEFAULT_MOUNT
    """Where the volume is mounted, relative to the pod's root."""
    network_volume_id: str | None = None
    registry_id: str | None = None
    """Of the credential to pull with."""
    pull_refusal: str | None = None
    """What the registry says to the pull, where it turns it away."""
    start_ssh: bool = False
    stop_after: datetime | None = None
    terminate_after: datetime | None = None
    team: str | None = None
    defect: Defect | None = None


@dataclass(frozen=True)
class LogLine:
    seq: int
    at: datetime
    source: str
    """``container`` or ``system``."""
    text: str


@dataclass
class Pod:
    id: str
    machine_id: str
    cloud: Cloud
    order: PodOrder
    """As edited since."""
    gpu_count: int
    cost_per_hr: Decimal
    """$/h for all GPUs, in force since the last start."""
    created_at: datetime
    api_key: str
    arrival: int
    bid: Decimal | None
    """$/h per GPU in force."""
    locked: bool = False
    status: Status = Status.EXITED
    last_status_change: str = ""
    last_started_at: datetime | None = None
    container: Container = Container.ABSENT
    ran_at: datetime | None = None
    """When the container last began to run."""
    exited_at: datetime | None = None
    """When the container last ended by itself."""
    runtime_stale_until: datetime | None = None
    dying_until: datetime | None = None
    """When the processes of a stopped pod are killed; nothing starts before."""
    cause: Cause | None = None
    starts: int = 0
    """How often it was rented or resumed."""
    boots: int = 0
    """How often its container ran."""
    epoch: int = 0
    """Raised by every transition, so that an action scheduled before it does nothing."""
    terminated_at: datetime | None = None
    meter: Meter = field(default_factory=Meter)
    log: list[LogLine] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"pod:{self.id}"

    @property
    def type(self) -> PodType:
        return PodType.RESERVED if self.order.bid is None else PodType.INTERRUPTABLE

    @property
    def has_volume(self) -> bool:
        return self.order.volume_gb > 0 or self.order.network_volume_id is not None

    @property
    def holds_gpus(self) -> bool:
        return self.status is Status.RUNNING and self.gpu_count > 0

    @property
    def running_disk_rate(self) -> Fraction:
        disk = CONTAINER_DISK_PRICE * self.order.container_disk_gb + VOLUME_PRICE * self.order.volume_gb
        return disk / HOURS_PER_STORAGE_MONTH

    @property
    def stopped_disk_rate(self) -> Fraction:
        return STOPPED_VOLUME_PRICE * self.order.volume_gb / HOURS_PER_STORAGE_MONTH

    def write_log(self, at: datetime, source: str, text: str) -> None:
        self.log.append(LogLine(len(self.log) + 1, at, source, text))


@dataclass(frozen=True)
class NetworkVolume:
    """Storage of a data centre that outlives pods. It is billed from the start of the market on, without exception."""

    id: str
    name: str
    size_gb: int
    data_center_id: str
    meter: Meter = field(default_factory=Meter, compare=False)

    @property
    def per_hour(self) -> Fraction:
        large = self.size_gb >= LARGE_NETWORK_VOLUME_GB
        price = LARGE_NETWORK_VOLUME_PRICE if large else SMALL_NETWORK_VOLUME_PRICE
        return price * self.size_gb / HOURS_PER_STORAGE_MONTH
