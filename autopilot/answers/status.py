"""The daemon and its markets, and what can be rented there."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.answers.plans import RankedOffer
from autopilot.answers.scalars import Described, Instant, Money


@dataclass(frozen=True, kw_only=True)
class Certificate(Described):
    lack: str | None
    """Why nothing new is rented there."""
    status: str | None
    """What the certificate lacks."""
    issued_at: Instant | None
    ends_at: Instant | None
    ended_because: str
    version: str | None
    account: str | None
    broken: list[str]


@dataclass(frozen=True, kw_only=True)
class Market(Described):
    name: str
    known: bool
    """The last tick could read it."""
    credit: Money | None
    read_at: Instant | None
    """When it was last read in full."""
    reason: str
    hint: str
    """What mends it, where that is the user's to do: the market refuses its key. Else empty."""
    spot: bool
    on_demand: bool
    spot_note: str
    unwatched: str
    """What a machine there goes on billing that nobody watches, and that there is no bill, in words; else empty."""
    certificate: Certificate


@dataclass(frozen=True, kw_only=True)
class Status(Described):
    version: str
    pid: int
    now: Instant
    speed: float
    install_id: str
    last_tick_at: Instant | None
    failing_since: Instant | None
    """Since then no tick has ended well; null: the last one did."""
    failure: str
    """Why the newest tick failed; empty where it did not."""
    clock_behind_s: int | None
    """By how much its clock is slow by the markets' answers, negative where it is fast. Nothing is rented then.
    Null: it is right by them, or none has told the time."""
    jobs_open: int
    behind_store: tuple[str, ...] = ()
    """Jobs of whose machines the store knows more than the ledger, which was put back from an older copy."""
    unsettled_leases: int
    unbilled_leases: int
    providers: list[Market]


@dataclass(frozen=True, kw_only=True)
class Offers(Described):
    offers: list[RankedOffer]
    markets: list[Market]
    notes: list[str]
