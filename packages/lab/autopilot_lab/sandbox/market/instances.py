"""One rented contract and everything the market knows about it.

Three views of its state are kept apart, as the provider keeps them: ``intended`` (what the customer or the market
wants), ``cur_state``/``next_state`` (the hardware contract) and ``actual`` (what the host last reported, which lags).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from autopilot_lab.sandbox.market.machines import Chunk
from autopilot_lab.sandbox.market.metering import Meter
from autopilot_lab.sandbox.units import HOURS_PER_STORAGE_MONTH

RUNNING, STOPPED = "running", "stopped"


class Cause(StrEnum):
    """Why an instance does not hold its GPUs."""

    OUTBID = "outbid"
    DISPLACED = "displaced"
    USER = "user"
    OUT_OF_CREDIT = "out_of_credit"
    EXPIRED = "expired"


class Container(StrEnum):
    ABSENT = "absent"
    LOADING = "loading"
    RUNNING = "running"
    EXITED = "exited"


class Defect(StrEnum):
    """A start that never succeeds; for tests of loading timeouts."""

    STUCK_LOADING = "stuck_loading"
    PULL_FAILED = "pull_failed"


@dataclass(frozen=True)
class RentOrder:
    """What a create call asks for. ``price`` ($/h for the chunk) is ``None`` for on-demand."""

    offer_id: int
    image: str
    disk_gb: Decimal
    price: Decimal | None
    label: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    onstart: str | None = None
    args: tuple[str, ...] = ()
    runtype: str | None = None
    cancel_unavail: bool = False
    start_stopped: bool = False
    must_lose: bool = False
    defect: Defect | None = None
    pull_refusal: str | None = None
    """What the registry says to the pull, where it turns it away."""


@dataclass
class Contract:
    id: int
    machine_id: int
    gpu_ids: Chunk
    order: RentOrder
    label: str | None
    price: Decimal
    """$/h in force: the current bid, or the locked on-demand price."""
    auction_bid: Decimal
    """What the auction sees: follows ``price`` at once upwards, after a delay downwards."""
    storage_rate: Fraction
    created_at: datetime
    end_date: datetime
    api_key: str
    arrival: int
    intended: str = STOPPED
    cur_state: str = STOPPED
    next_state: str = STOPPED
    actual: str | None = None
    status_msg: str | None = None
    container: Container = Container.ABSENT
    wants_gpus: bool = True
    holding: bool = False
    cause: Cause | None = None
    ran_at: datetime | None = None
    """When the container last began to run; ``None`` while it does not."""
    boots: int = 0
    epoch: int = 0
    """Raised by every transition, so that an action scheduled before it does nothing."""
    destroyed_at: datetime | None = None
    ssh_keys: list[str] = field(default_factory=list)
    """Attached to it."""
    ssh_host: str | None = None
    """As it is shown; ``None``: by the name of one of the market's proxies."""
    ssh_port: int | None = None
    """Where its SSH server answers since it last began to run; ``None``: it has none."""
    meter: Meter = field(default_factory=Meter)
    prices: list[tuple[datetime, Decimal]] = field(default_factory=list)

    @property
    def is_bid(self) -> bool:
        return self.order.price is not None

    @property
    def proxy(self) -> int:
        """Which of the market's proxies leads to its SSH server since it last began to run."""
        return (self.id + self.boots) % 9 + 1

    @property
    def key(self) -> str:
        return f"instance:{self.id}"

    @property
    def auction_price_per_gpu(self) -> Fraction | None:
        return Fraction(self.auction_bid) / len(self.gpu_ids) if self.is_bid else None

    def price_at(self, instant: datetime) -> Decimal | None:
        """The price in force at ``instant``; ``None`` before the first."""
        known = [price for since, price in self.prices if since <= instant]
        return known[-1] if known else None


def storage_rate(price_per_gb_month: Decimal, disk_gb: Decimal) -> Fraction:
    return Fraction(price_per_gb_month) * Fraction(disk_gb) / HOURS_PER_STORAGE_MONTH
