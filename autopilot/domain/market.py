"""The market as one decision sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from autopilot.domain.certificate import NO_PROOF, Lack, UseProof
from autopilot.domain.hosts import KnownHosts
from autopilot.domain.image import ImageFacts
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.lost_bids import LostBid
from autopilot.domain.offer import Capabilities, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class UncertifiedRoom:
    """What the allowance for a market without a certificate in force still allows there."""

    allowance: Decimal
    """Dollars in all."""
    left: Decimal
    """Beyond all that is spent or committed there."""
    is_taken: bool
    """Another job has a machine there: until the market is proved by use there is one at a time."""
    since: datetime | None = None
    """When the last certificate ended; None: there never was one."""
    proof: UseProof = NO_PROOF
    """Once it is made, several machines may be rented at a time."""


@dataclass(frozen=True, slots=True)
class ProviderView:
    """``known`` False: the last list was not complete; nothing is launched there and nothing counts as gone."""

    capabilities: Capabilities
    known: bool
    credit: Decimal | None
    search_problem: str = ""
    """Why its offers could not be searched, in its own words; empty when they could."""
    lack: Lack | None = None
    """Why nothing new may be rented there, but for a certification of it."""
    uncertified: UncertifiedRoom | None = None
    """What may be spent there without a certificate; None if no allowance applies."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the caps over several jobs still allow to be committed; None: no such cap."""

    day: Decimal | None = None
    month: Decimal | None = None
    hourly: Decimal | None = None
    """$/h that may burn on top of what does."""
    instances: int | None = None
    """How many more may be rented."""
    purse: Decimal | None = None
    """What the job's token, or its schedule, still allows over several jobs: the less of the two; None: no bound."""
    purse_reason: Reason = Reason.OVER_ALLOWANCE
    """Why there is no more: which of the two that is."""

    @property
    def exhausted(self) -> Reason | None:
        if self.purse is not None and self.purse <= 0:
            return self.purse_reason
        if self.month is not None and self.month <= 0:
            return Reason.OVER_MONTH_LIMIT
        return Reason.OVER_DAY_LIMIT if self.day is not None and self.day <= 0 else None


@dataclass(frozen=True, slots=True)
class Ours:
    """Machines of our other jobs that run in one pool whose machines all pay one price."""

    count: int
    price: Decimal
    """$/h, the least that one of them pays now."""

    def dearer_by(self, price: Decimal) -> Decimal:
        """$/h that all of them pay more once the pool costs so much."""
        return self.count * max(price - self.price, Decimal(0))


@dataclass(frozen=True, slots=True)
class Market:
    """``offers``: those that fit the job's query, from all markets.

    Their floors are above every bid that lost there lately and echo none of ours.
    """

    providers: Mapping[str, ProviderView]
    offers: tuple[Offer, ...] = ()
    offers_seen_at: datetime | None = None
    avoid: frozenset[tuple[str, str]] = field(default=frozenset())
    """(provider, machine_id) pairs that the job leaves alone for a while."""
    allowance: Allowance = Allowance()
    outlook: Outlook = field(default_factory=Outlook)
    lost_bids: tuple[LostBid, ...] = ()
    """Those that raised a floor among ``offers``."""
    ours: Mapping[tuple[str, str], Ours] = field(default_factory=dict)
    """By (provider, machine_id), on markets of which one says how much room there is."""
    hosts: KnownHosts = field(default_factory=KnownHosts)
    """What machines have shown of themselves, over all jobs."""
    made_room: bool = False
    """Since the job was parked a bill has given money back, or a limit or its budget was raised."""
    image: ImageFacts | None = None
    """What the job's image requires, as far as it is known."""

    @property
    def may_have_spot(self) -> bool:
        """Whether spot is worth waiting for on any market."""
        return any(view.capabilities.may_have_spot for view in self.providers.values())

    def lack_for(self, job: Job, provider: str) -> Lack | None:
        """Why the job may not rent there for want of a certificate; a certification of that market needs none."""
        view = self.providers.get(provider)
        return None if view is None or job.certifies == provider else view.lack

    def room_on(self, job: Job, provider: str) -> UncertifiedRoom | None:
        """What bounds what the job rents there for want of a certificate; None: nothing does."""
        view = self.providers.get(provider)
        return None if view is None or job.certifies == provider else view.uncertified

    def room_of(self, job: Job, lease: Lease) -> UncertifiedRoom | None:
        """The same for a machine that the job has: one that was rented under a certificate goes on as before."""
        room = self.room_on(job, lease.provider)
        return room if room is not None and lease.is_rented_since(room.since) else None

    def able(self, provider: str) -> Capabilities | None:
        """What that market can do; None: no longer known."""
        view = self.providers.get(provider)
        return None if view is None else view.capabilities

    def knows(self, provider: str) -> bool:
        view = self.providers.get(provider)
        return view is not None and view.known
