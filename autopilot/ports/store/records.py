"""Records that only the ledger knows; jobs, leases, entries and prices are the domain's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.domain.money import Number


@dataclass(frozen=True, slots=True)
class EventRecord:
    """``name`` is ``noun.verb_past``; ``seq`` is given by the store (0 before that)."""

    at: datetime
    name: str
    job_id: str | None
    lease_id: str | None
    fields: tuple[tuple[str, Number], ...] = ()
    seq: int = 0


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    id: str
    job_id: str
    at: datetime
    actions: tuple[Note, ...]
    vetoes: tuple[Note, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class BidRecord:
    """A bid that was asked for and what became of it: ``intended``, ``done``, ``refused`` or ``unknown``."""

    id: str
    lease_id: str
    at: datetime
    bid: Decimal
    outcome: str
    decision_id: str | None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a request was answered that must not act twice. ``request_sha256``: of all that it asked for."""

    owner: int
    key: str
    request_sha256: str
    at: datetime
    status: int
    body: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class PendingNotice:
    """Something that people are to be informed of, on its way to one sink."""

    id: str
    """The same for every sink and every attempt."""
    sink: str
    kind: str
    at: datetime
    """When it happened."""
    job_id: str | None
    lease_id: str | None
    title: str
    text: str
    due_at: datetime
    """Not to be sent before then."""
    attempts: int = 0
    digest_id: str = ""
    """Id of the digest message that contains it; empty: it is sent alone."""


@dataclass(frozen=True, slots=True)
class OwnerTotals:
    """Dollars of one owner's jobs, or of one schedule's."""

    posted: Decimal
    """Spend."""
    held: Decimal
    """The open reserves of machines that are gone and not yet settled."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Spend posted to one UTC day, and to the month in which it lies, over all jobs."""

    day: Decimal
    month: Decimal
