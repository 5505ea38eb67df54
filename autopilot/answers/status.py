"""The daemon and its markets, and what can be rented there."""

from __future__ import annotations

from autopilot.answers.plans import RankedOffer
from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money


@record(frozen=True, kw_only=True)
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
    uncertified: Money | None = None
    """Without one: what limits.uncertified allows there."""
    uncertified_left: Money | None = None
    """Of that, beyond all that is spent or committed there."""
    proved_until: Instant | None = None
    """Without one: until when the market is proved by use; null: it is not."""


@record(frozen=True, kw_only=True)
class Market(Described):
    name: str
    known: bool
    """Whether the last tick could read it."""
    credit: Money | None
    read_at: Instant | None
    """When it was last read in full."""
    reason: str
    hint: str
    """What the user can do about it: the market refuses its key. Else empty."""
    spot: bool
    on_demand: bool
    spot_note: str
    unwatched: str
    """In words: what an unattended machine there keeps costing, and whether the market issues no bill; else empty."""
    certificate: Certificate


@record(frozen=True, kw_only=True)
class Status(Described):
    version: str
    pid: int
    now: Instant
    speed: float
    install_id: str
    last_tick_at: Instant | None
    failing_since: Instant | None
    """Since when no tick has succeeded; null: the last one did."""
    failure: str
    """Why the newest tick failed; empty if it did not."""
    clock_behind_s: int | None
    """By how much its clock is slow compared with the markets' answers; negative: it is fast. Nothing is rented then.
    Null: it agrees with them, or none has sent the time."""
    jobs_open: int
    behind_store: tuple[str, ...] = ()
    """Jobs for which the store is newer than the ledger, which was restored from an older copy."""
    unsettled_leases: int
    unbilled_leases: int
    providers: list[Market]


@record(frozen=True, kw_only=True)
class Offers(Described):
    offers: list[RankedOffer]
    markets: list[Market]
    notes: list[str]
