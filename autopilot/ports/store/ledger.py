"""The ledger of record: what was spent and reserved, what the market billed, and the sums that reports read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol

from autopilot.domain.instance import CostKind
from autopilot.domain.ledger import InvoiceLine, LeaseBooks, LedgerEntry
from autopilot.domain.reconciliation import ReconciliationRow
from autopilot.domain.spend import SpendPart, SpendSource
from autopilot.ports.store.records import OwnerTotals, Totals


class Ledger(Protocol):
    """Entries are only ever added."""

    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        """Append; an id that already exists is left alone. Returns how many were new."""
        ...

    async def list_entries(self, lease_id: str) -> tuple[LedgerEntry, ...]:
        """Oldest first."""
        ...

    async def sum_totals(self, day: date) -> Totals: ...

    async def sum_owners(self, owners: Collection[int], since: date | None) -> OwnerTotals:
        """Of all jobs of these owners together, those that are over too: spend on ``since`` and later days, or on all;
        and what is reserved, of any day.
        """
        ...

    async def sum_schedule(self, schedule_id: str, since: date | None) -> OwnerTotals:
        """The same of all firings of that schedule."""

    async def sum_market(self, provider: str, since: datetime | None) -> OwnerTotals:
        """The same of all machines of that market, those of its certifications left out, that were rented ever or from
        ``since`` on.
        """
        ...

    async def sum_arrays(self, array_ids: Collection[str]) -> Mapping[str, OwnerTotals]:
        """By array, of each that is named: what all its tasks have spent, and what is held for them."""
        ...

    async def sum_held(self) -> Mapping[str | None, Decimal]:
        """By job: the open reserves of machines that are gone and not yet settled."""
        ...

    async def sum_corrections(
        self, since: datetime, *, job_id: str | None = None, from_day: date | None = None
    ) -> Decimal:
        """Dollars by which bills have changed what counts since then, at most zero when they gave money back.

        That is spend; and of what bills had given back before, for machines that were gone by then, what was still held
        for them and is so no more. Of that job alone, or of all; of spend on ``from_day`` and after, or of any day.
        """
        ...

    async def sum_by_day(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        """Spend posted so far by lease, kind and day (reserves left out).

        Every lease asked for has its mapping, empty if nothing is posted.
        """
        ...

    async def sum_books(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        """What is accrued and reserved, by lease; every lease asked for has its own, empty if nothing is posted."""
        ...


class Invoices(Protocol):
    """What the market billed, line by line."""

    async def add(self, lines: Iterable[InvoiceLine]) -> None:
        """Append; an id that already exists is left alone."""
        ...

    async def list_by_lease(self, lease_ids: Sequence[str]) -> tuple[InvoiceLine, ...]:
        """Every revision, ordered by lease, day, kind and revision."""
        ...


class Reports(Protocol):
    """Sums over many leases. Reads only."""

    async def sum_spend(
        self,
        since: date | None = None,
        before: date | None = None,
        *,
        job_id: str | None = None,
        per: SpendPart | None = None,
        with_spans: bool = False,
        with_tags: bool = False,
    ) -> SpendSource:
        """What was spent on the UTC days from ``since`` up to but without ``before``, summed per lease and kind.

        ``job_id``: of that job alone, or of all tasks of that array.

        ``per``: per UTC day or month as well; a month's sum has its first day. ``with_spans``: with all that the leases
        were, for another zone's days. ``with_tags``: with those of their jobs.
        """
        ...

    async def reconcile(self, month: str) -> tuple[ReconciliationRow, ...]:
        """Every lease with spend or a line in the UTC month "YYYY-MM", oldest first.

        Raises ``UserError`` when ``month`` is not of that form.
        """
        ...
