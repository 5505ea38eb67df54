"""Instances: rented machines as their market describes them at one moment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType


class Stopper(StrEnum):
    """Who stopped a machine, where its market has a word for it."""

    BIDDER = "bidder"
    """It was outbid, or an on-demand renter took it."""
    USER = "user"
    """The account's user, by its console or one of its keys; or this program."""
    HOST = "host"
    """It has failed, and does not start again."""


class InstanceStatus(StrEnum):
    PROVISIONING = "provisioning"
    """Rented, not yet running: image pull, container start. Storage bills, compute does not."""
    RUNNING = "running"
    """Compute and storage bill."""
    STOPPED = "stopped"
    """Disk kept and billed. Outbid, stopped by us, out of credit and expired all look like this: ``stop_causes``."""
    OFFLINE = "offline"
    """The host does not answer; nothing bills."""


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Where a machine's SSH server answers, as its market says."""

    host: str
    port: int
    user: str = "root"


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
    bid: Decimal
    """$/h of compute while it runs: the current bid on spot, the locked price on demand."""
    storage_rate: Decimal
    """$/h of the disk."""
    gpu: str
    num_gpus: int
    ends_at: datetime | None
    message: str
    """The market's own words on its state; for people only."""
    start_failed: bool = False
    """If it never ran: the market says that it did not come up. False as well where a market tells no such end from
    an outbid."""
    price_to_win: Decimal | None = None
    """$/h: the least bid that brings a stopped machine back, or keeps one that was outbid and still runs, where the
    market says it. None: it does not, or it was not outbid."""
    stopped_by: Stopper | None = None
    """Who stopped a stopped machine, in the market's own word. None: the market has no word, which proves nothing."""
    stop_said_at: datetime | None = None
    """When that was said. None: it is what the market says now."""

    floor_shown: Decimal | None = None
    """$/h: what the newest search shows as the floor of the GPUs that it holds. None: it shows none."""
    price: Decimal | None = None
    """$/h: what it is charged while it runs, where that is not its bid. None: it is its bid, or cannot be told now."""

    ssh: tuple[SshAddress, ...] = field(default=(), compare=False)
    """Where one logs in on it while it runs, the shortest way first. They may change whenever it runs again."""

    is_as_asked: bool = True
    """False: its market shows it as something that no create here asks for, and no other field tells of that."""

    @property
    def bills(self) -> Decimal:
        """$/h at this moment: the GPUs while it runs, and the disk wherever its host answers."""
        storage = ZERO if self.status is InstanceStatus.OFFLINE else self.storage_rate
        return storage + (self.computes_at if self.status is InstanceStatus.RUNNING else ZERO)

    @property
    def computes_at(self) -> Decimal:
        """$/h of compute while it runs: never more than its bid."""
        return self.bid if self.price is None else min(self.price, self.bid)


@dataclass(frozen=True, slots=True)
class TopUp:
    """What a market's answer states about automatic top-up by card: a claim, unverified."""

    is_on: bool | None = None
    """None: the market does not tell."""
    below: Decimal | None = None
    """Dollars of credit at which the card is charged, where it tells."""


@dataclass(frozen=True, slots=True)
class Account:
    credit: Decimal | None
    """Spendable dollars; may be negative. None: the market has no way to tell."""
    account_id: str = ""
    """What the market calls the account; empty if it does not say."""
    top_up: TopUp = TopUp()
    """Where it is on, the credit is no last safeguard."""

    @property
    def digest(self) -> str:
        """Digest of the id: it distinguishes accounts without naming them. Empty without an id."""
        return hashlib.sha256(self.account_id.encode()).hexdigest()[:12] if self.account_id else ""


@dataclass(frozen=True, slots=True)
class AccountQuota:
    """How much of something the market lets the account have. ``used`` None: it does not say now.

    ``place``: where it holds; empty: everywhere. ``unit``: of both numbers, in the market's word; empty: things.
    """

    name: str
    limit: int
    used: int | None
    place: str = ""
    unit: str = ""

    @property
    def is_used_up(self) -> bool:
        return self.used is not None and self.used >= self.limit


class CostKind(StrEnum):
    COMPUTE = "compute"
    STORAGE_RUNNING = "storage_running"
    """The disk of a machine that is not stopped: loading and running."""
    STORAGE_STOPPED = "storage_stopped"
    """The disk kept while the machine is stopped; some markets price it apart."""
    BANDWIDTH = "bandwidth"
    FEE = "fee"
    """Anything else that a market bills for an instance."""
    CREDIT = "credit"
    """What a market gives back; its amounts are negative."""

    @property
    def is_storage(self) -> bool:
        return self in (CostKind.STORAGE_RUNNING, CostKind.STORAGE_STOPPED)

    @property
    def as_billed(self) -> CostKind:
        """The kind under which bills are compared: no market's bill tells its two kinds of storage apart."""
        return CostKind.STORAGE_RUNNING if self.is_storage else self


@dataclass(frozen=True, slots=True)
class Charge:
    """One line that the market itself billed: authoritative, late, rounded."""

    instance_id: str
    day: date
    kind: CostKind
    """A market that does not tell a running disk from a stopped one says ``STORAGE_RUNNING`` for both."""
    amount: Decimal
    label: str = field(default="", compare=False)
    """Label of the instance, if the bill has it."""
    periods: tuple[tuple[datetime, datetime], ...] = field(default=(), compare=False)
    """From when to when, where the bill says so; empty: the whole UTC day."""
