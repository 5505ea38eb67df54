"""What the engine and the API ask of the ledger's database.

A transaction is all or nothing and durable when its block ends without an exception. Every method may raise
``StoreUnavailable``: the database cannot be read or written now (disk full, read-only, locked, gone). Then nothing
may be created at any market, while destroys stay allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol

from autopilot.domain.actions import Note
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import InvoiceLine, LeaseBooks, LedgerEntry
from autopilot.domain.money import Number
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reconciliation import ReconciliationRow
from autopilot.domain.spend import SpendPart, SpendSource


class StoreUnavailable(Exception):
    """The database cannot serve now; the message says why."""


class CommitUnknown(StoreUnavailable):
    """The connection broke while the database committed: all of the transaction was written, or nothing of it."""


class LeadershipLost(StoreUnavailable):
    """Another daemon has taken the ledger over: this one may neither write nor act any more."""


class ConstraintViolated(Exception):
    """A write breaks a rule of the ledger (a slot held twice, an entry changed, a row that names nothing): a defect."""


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
class Totals:
    """Spend posted to one UTC day, and to the month in which it lies, over all jobs."""

    day: Decimal
    month: Decimal


class UnitOfWork(Protocol):
    """One transaction. Jobs are loaded with the leases that are not over, spans included, and with what they spent."""

    async def save(self, job: Job) -> None:
        """Insert or update the job, its leases and their spans."""
        ...

    async def save_lease(self, lease: Lease) -> None: ...

    async def job(self, reference: str) -> Job | None:
        """By id, by unique id prefix (at least 6 characters), or the newest of that name."""
        ...

    async def open_jobs(self) -> tuple[Job, ...]:
        """Jobs that are not final or still have a lease that is not over, oldest first."""
        ...

    async def jobs(self, *, limit: int) -> tuple[Job, ...]:
        """Newest first, finished ones included."""
        ...

    async def lease(self, lease_id: str) -> Lease | None: ...

    async def leases_of(self, job_id: str) -> tuple[Lease, ...]:
        """All leases that the job ever had, oldest first."""
        ...

    async def leases_labelled(self, labels: Collection[str]) -> tuple[Lease, ...]:
        """In any state."""
        ...

    async def orphan_leases(self) -> tuple[Lease, ...]:
        """Leases without a job that are not over."""
        ...

    async def unsettled_leases(self) -> tuple[Lease, ...]:
        """GONE, once rented, and not yet settled against the market's charges."""
        ...

    async def spot_leases_since(self, at: datetime) -> tuple[Lease, ...]:
        """Spot leases intended since then that were rented, with their spans, oldest first."""
        ...

    async def launches_since(self, at: datetime) -> Mapping[str | None, int]:
        """Leases intended since then, by job id."""
        ...

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None: ...

    async def checkpoints_of(self, job_id: str) -> tuple[Checkpoint, ...]:
        """Newest first."""
        ...

    async def remove_checkpoint(self, checkpoint: Checkpoint) -> None: ...

    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        """Append; an id that is there already is left alone. Returns how many were new."""
        ...

    async def posted(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        """Spend posted so far by lease, kind and day (reserves left out)."""
        ...

    async def totals(self, day: date) -> Totals: ...

    async def entries_of(self, lease_id: str) -> tuple[LedgerEntry, ...]: ...

    async def add_bid(self, record: BidRecord) -> None:
        """Insert or, by id, update the outcome."""
        ...

    async def bids_of(self, job_id: str) -> tuple[BidRecord, ...]: ...

    async def add_decision(self, record: DecisionRecord) -> None: ...

    async def decisions_of(self, job_id: str, *, limit: int) -> tuple[DecisionRecord, ...]:
        """Newest first."""
        ...

    async def add_events(self, records: Iterable[EventRecord]) -> None: ...

    async def events_after(self, seq: int = 0, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        """The next of all events, in order, for whoever reads on."""
        ...

    async def events_of(self, job_id: str, *, limit: int = 1000) -> tuple[EventRecord, ...]:
        """The newest of one job, in order."""
        ...

    async def add_prices(self, observations: Iterable[PriceObservation]) -> None: ...

    async def note(self, key: str) -> str | None:
        """A value kept for the program itself (install id and the like)."""
        ...

    async def set_note(self, key: str, value: str) -> None: ...

    # The ledger of record: reserves, the market's own lines, and how they compare.

    async def books_of(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        """What is accrued and reserved, by lease; every lease asked for has its own, empty where nothing is posted."""
        ...

    async def add_invoice_lines(self, lines: Iterable[InvoiceLine]) -> None:
        """Append; an id that is there already is left alone."""
        ...

    async def invoice_lines_of(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        """Every revision, ordered by lease, day, kind and revision."""
        ...

    async def leases_to_reconcile(self, gone_since: datetime) -> tuple[Lease, ...]:
        """Leases that have or had an instance, and are not over or were gone since then; oldest first."""
        ...

    async def unresolved_leases(self, intended_since: datetime) -> tuple[Lease, ...]:
        """Leases given up without their create's outcome ever being known, intended since then; oldest first."""
        ...

    async def reconciliation(self, month: str) -> tuple[ReconciliationRow, ...]:
        """Every lease with spend or a line in the UTC month "YYYY-MM", oldest first.

        Raises ``UserError`` when ``month`` is not of that form.
        """
        ...

    # --- reports and market history

    async def spend_source(
        self,
        since: date | None = None,
        before: date | None = None,
        *,
        job_id: str | None = None,
        per: SpendPart | None = None,
        with_spans: bool = False,
    ) -> SpendSource:
        """What was spent on the UTC days from ``since`` up to but without ``before``, summed per lease and kind.

        ``per``: per UTC day or month as well; a month's sum has its first day. ``with_spans``: with all that the leases
        were, for another zone's days.
        """
        ...

    async def leases_found(self, reference: str) -> tuple[Lease, ...]:
        """By id, by the market's id of the instance (which two markets may share), or by label; newest first."""
        ...

    async def bids_on(self, lease_id: str) -> tuple[BidRecord, ...]:
        """Oldest first."""
        ...

    async def events_about(self, lease_id: str) -> tuple[EventRecord, ...]:
        """In order of ``seq``."""
        ...

    async def price_history(
        self, gpu: str, since: datetime, until: datetime, *, provider: str | None = None
    ) -> tuple[PriceObservation, ...]:
        """Of one GPU by its name, from ``since`` up to but without ``until``, oldest first."""
        ...

    async def thin_prices(self, before: datetime, *, hours: int) -> int:
        """Put the observations of each whole hour that ended by ``before`` into one per machine, at most so many hours
        at once, oldest first; returns how many hours were done.
        """
        ...

    async def forget_prices(self, before: datetime) -> int:
        """Remove the observations before then; returns how many."""
        ...

    async def forget_history(self, before: datetime) -> int:
        """Remove decisions and events of jobs that were over by then, and events of no job that are older; returns how
        many. What was spent, bid and rented is never removed.
        """
        ...


class Store(Protocol):
    def transaction(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Read and write; commits when the block ends, rolls back on an exception."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Read only, one consistent view."""
        ...

    async def close(self) -> None: ...
