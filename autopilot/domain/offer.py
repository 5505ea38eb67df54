"""Offers: rentable capacity as seen at a time. All prices are for the whole offered chunk, never per GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.host import NO_FACTS, NO_NEEDS, HostFacts, HostNeeds
from autopilot.domain.money import ZERO, storage_rate


class CapacityType(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on_demand"


class DeadMan(StrEnum):
    """What a machine can do about its bill when its permit is not renewed."""

    DESTROYS = "destroys"
    """It destroys itself: all billing ends."""
    POWERS_OFF = "powers_off"
    """It switches itself off: compute stops billing, its disk does not."""
    NONE = "none"
    """Nothing that it can do ends the bill."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a market can do. Policy reads these, never a market's name."""

    spot: bool
    on_demand: bool
    can_rebid: bool
    pauses_when_outbid: bool
    keeps_disk_when_stopped: bool
    reports_floor: bool
    bills_at_bid: bool
    """True: a running spot instance pays its own bid. False: it pays the clearing price."""
    shows_held_floors: bool = False
    """Whether offers show the machines that we hold, too, each with a floor that does not echo our own bid."""
    is_pooled: bool = False
    """An offer represents any number of machines of a kind, and ``machine_id`` names the kind, not one machine."""
    spot_is_unknown: bool = False
    """Whether spot is available is not known yet."""
    spot_note: str = ""
    """What was found out about spot, in words for people, where a market's spot comes and goes."""
    boots_vm: bool = False
    """It starts our user data on an operating system; container runtime, image and container are ours to bring up.
    False: it starts our text in the job's image."""
    rebid_needs_stop: bool = False
    """A running machine must be stopped before its bid is changed, and started after."""
    resumes_by_itself: bool = True
    """An outbid machine that was not destroyed comes back when its bid wins again. False: it waits for a start."""
    notice_s: int = 0
    """Market seconds from the notice that it is to be taken away until it stops; 0: none is promised."""
    notice_may_be_withdrawn: bool = False
    """A notice says what may happen, not what will: the machine goes on if its bid wins again in time."""
    bids_set_price: bool = False
    """The highest bid that loses in a pool is what all pay who win there: ours against ours raises our own price."""
    has_bills: bool = True
    """The market says what it billed. False: what the ledger holds is never confirmed by a bill."""
    dead_man: DeadMan = DeadMan.DESTROYS
    free_start_s: int = 0
    """Market seconds that a machine may take to start, and costs no compute meanwhile, beyond what loading may take."""

    @property
    def resumes_where_it_was(self) -> bool:
        """An outbid machine comes back by itself, and with its disk."""
        return self.pauses_when_outbid and self.keeps_disk_when_stopped and self.resumes_by_itself

    @property
    def may_have_spot(self) -> bool:
        """As far as is known: a bid is worth waiting for."""
        return self.spot or self.spot_is_unknown


@dataclass(frozen=True, slots=True)
class Offer:
    """One rentable chunk of one machine. ``offer_id`` is unstable; ``(provider, machine_id, num_gpus)`` is the key."""

    provider: str
    offer_id: str
    machine_id: str
    host_id: str
    gpu: str
    num_gpus: int
    vram_gb: Decimal
    """Per GPU."""
    floor: Decimal | None
    """Lowest bid that wins now ($/h), or None when it is unknown or spot is not offered."""
    on_demand_price: Decimal | None
    """Compute price on demand ($/h), or None when not offered."""
    storage_price: Decimal
    """$/GB-month."""
    upload_price: Decimal
    """$/GB."""
    download_price: Decimal
    """$/GB."""
    download_mbps: Decimal
    reliability: Decimal
    """0..1, as the market states it."""
    verified: bool
    datacenter: bool
    disk_gb: Decimal
    location: str
    ends_at: datetime | None
    clearing_price: Decimal | None = None
    """What spot machines of this kind pay now ($/h), where that is neither their bid nor the floor; None: the market
    does not tell it apart."""
    room: int | None = None
    """How many more bids of ours win at the floor, of a pool whose machines all pay one price; None: it is not told."""
    dead_man: DeadMan = DeadMan.DESTROYS
    """As its market states it, set by every search; no adapter sets it."""
    host: HostFacts = NO_FACTS

    @property
    def key(self) -> tuple[str, str, int]:
        return self.provider, self.machine_id, self.num_gpus

    def storage_rate(self, disk_gb: Decimal) -> Decimal:
        """$/h of keeping a disk of that size on this machine."""
        return storage_rate(self.storage_price, disk_gb)


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """What a job can use; a market narrows its search with it, the policy checks each offer again."""

    gpus: tuple[tuple[str, int], ...]
    """(standard name, count) pairs, any of which will do; see ``gpu_names``."""
    min_vram_gb: Decimal
    disk_gb: Decimal
    verified_only: bool
    datacenter_only: bool
    host: HostNeeds = NO_NEEDS
    floors_only: bool = False
    """No job asks, a record does: floors alone are wanted, and little may be spent on them. What a market counts or
    limits is left to jobs; nothing is an answer where none of it is to spare."""

    @property
    def on_any_host(self) -> OfferQuery:
        """The same GPUs with the same disk, with none of the other wishes."""
        return replace(self, min_vram_gb=ZERO, verified_only=False, datacenter_only=False, host=NO_NEEDS)
