"""What the engine asks of a market, and the three outcomes of every change it asks for.

``Done``: it happened. ``Refused``: a known "no". ``Unknown``: no known outcome (timeout, 5xx, reset, unreadable body);
an Unknown create is never sent again but looked up by its label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from autopilot.domain.drift import Drift
from autopilot.domain.host import NO_NEEDS, HostNeeds
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.registry import RegistryLogin
from autopilot.domain.remark import Remark
from autopilot.domain.reported_time import ReportedTime
from autopilot.markets.facts import MarketFacts
from autopilot.ports.clock import Clock

T = TypeVar("T")


class RefusalCode(StrEnum):
    OFFER_GONE = "offer_gone"
    BID_TOO_LOW = "bid_too_low"
    OUT_OF_CREDIT = "out_of_credit"
    RATE_LIMITED = "rate_limited"
    NO_RIGHTS = "no_rights"
    """The key is missing, unknown, or lacks the permission: the user must act."""
    NOT_FOUND = "not_found"
    """No such instance."""
    QUEUED = "queued"
    """A start that the market keeps for later; it may fire at any time."""
    QUOTA = "quota"
    """The account may not have more of something: the user must have it raised, or free some of it."""
    WRONG_TERMS = "wrong_terms"
    """Rented, but not as asked (on demand instead of spot, another price)."""
    INVALID = "invalid"
    """The market says that the request itself is wrong: a defect here or a bad job setting."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Refused:
    """``instance_id``: the refusal left an instance behind all the same; it bills and must be destroyed."""

    code: RefusalCode
    message: str
    instance_id: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    message: str
    instance_id: str | None = None
    """An id found in the unreadable answer, if any."""


class MarketUnknown(Exception):
    """A read failed or was incomplete. The market is in doubt: launch nothing, believe no absence.

    ``code`` is set when the market said plainly why (rate limit, rights), None otherwise.
    """

    def __init__(self, message: str, code: RefusalCode | None = None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """Everything a create needs. It exists only for a lease whose intent is committed."""

    label: str
    offer_id: str
    machine_id: str
    capacity_type: CapacityType
    bid: Decimal
    """The bid on spot; on demand the price that was seen, against which the read-back is checked."""
    image: str
    disk_gb: Decimal
    env: Mapping[str, str]
    onstart: str
    """What the machine runs first: the start command, or the user data where the market ``boots_vm``."""
    login: RegistryLogin | None = None
    """To pull the image with, for a market that keeps no logins."""
    login_id: str | None = None
    """Id of the login, on a market that stores logins."""
    public_port: int | None = None
    """A port that is to be reached from outside under its own number; above 65,535 the market chooses that number."""
    ends_by: datetime | None = None
    """When the market is to end it by itself, even without us; only if it can."""
    host: HostNeeds = NO_NEEDS
    """What the job asks of the machine, for a market that chooses the machine itself."""


@dataclass(frozen=True, slots=True)
class Created:
    instance_id: str


@dataclass(frozen=True, slots=True)
class KeptLogin:
    """A registry's login that a market keeps: it shows id and name, and never what was written."""

    login_id: str
    name: str


class KeptLogins(Protocol):
    """Of a market that pulls private images with logins that it keeps. Changes return an outcome, as a provider's do.

    The name is unique to a login: one of unknown outcome is looked up by it.
    """

    async def list(self) -> tuple[KeptLogin, ...]:
        """All of the account, ours and others': complete or ``MarketUnknown``."""
        ...

    async def save(self, name: str, login: RegistryLogin) -> Done[KeptLogin] | Refused | Unknown:
        """One attempt, never repeated."""
        ...

    async def delete(self, login_id: str) -> Done[None] | Refused | Unknown: ...


class SshKeys(Protocol):
    """Of a market whose machines can be dialled: by its API a key is allowed to log in on one of them."""

    async def attach(self, instance_id: str, public_key: str) -> Done[None] | Refused | Unknown:
        """One attempt. A key that is attached already may be attached again."""
        ...


class Provider(Protocol):
    """One market account. Reads raise ``MarketUnknown``; changes return an outcome in every case."""

    name: str

    @property
    def capabilities(self) -> Capabilities:
        """As known now. Spot may come and go: ask each time, and keep no copy."""
        ...

    @property
    def kept_logins(self) -> KeptLogins | None:
        """The registry logins that the market keeps; None if a create takes the login itself."""
        ...

    @property
    def ssh_keys(self) -> SshKeys | None:
        """None where the daemon cannot dial machines of this market."""
        ...

    async def instances(self) -> tuple[Instance, ...]:
        """All instances of the account, ours and others': complete or ``MarketUnknown``."""
        ...

    async def instance(self, instance_id: str) -> Instance | None:
        """One instance; None only if the market says plainly that there is none."""
        ...

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]: ...

    async def start_words(self, instance_id: str) -> str:
        """What the market's logs say of a machine that does not come up: lines of its host, and those of its container
        that begin with ``START_WORDS``. Empty: nothing, or they cannot be read now, or the list's message has it all.
        """
        ...

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        """What such offers have cost, by the market's own record, in steps of ``domain.prices.past_step``.

        Empty if it keeps none. Raises ``MarketUnknown``.
        """
        ...

    async def gpu_names(self) -> tuple[str, ...]:
        """The names of all kinds of GPU that the market lists, whether any is free now or not."""
        ...

    async def account(self) -> Account: ...

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """One attempt, never repeated. What was rented is read back before it counts as Done."""
        ...

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        """Done carries the bid as the market rounds it."""
        ...

    async def start(self, instance_id: str) -> Done[None] | Refused | Unknown: ...

    async def stop(self, instance_id: str) -> Done[None] | Refused | Unknown: ...

    async def destroy(self, instance_id: str) -> Done[None] | Refused | Unknown:
        """Done or NOT_FOUND is a claim, never proof: gone is what complete lists and a single read say."""
        ...

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        """What the market billed on the UTC days ``since``..``until``, both included."""
        ...

    async def quotas(self) -> tuple[AccountQuota, ...]:
        """Those that a machine of ours counts against; empty if the market tells of none."""
        ...

    def drifts(self) -> tuple[Drift, ...]:
        """How the market's answers have differed, since the start, from those that the adapter was written for.

        Empty for an adapter that does not compare.
        """
        ...

    def reported_time(self) -> ReportedTime | None:
        """The time by the newest answer that has told it; None if none has."""
        ...

    def remarks(self) -> tuple[Remark, ...]:
        """The newest answers since the start that a certification weighs, oldest first; empty if none is made."""
        ...

    async def close(self) -> None: ...


class Plugin(Protocol):
    """What an entry point in the group ``autopilot.providers`` names."""

    name: str
    facts: MarketFacts
    """Imported with the module: neither the SDK nor anything else that takes time."""

    def connect(self, settings: Mapping[str, Any], clock: Clock) -> Provider:
        """``settings``: base_url, api_key and the plug-in's own keys. Raises ``UserError``."""
        ...
