"""The append-only ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job
from autopilot.domain.ledger import BILL_TYPES, RESERVE_TYPES, SPEND_TYPES, LeaseBooks, LedgerEntry, sum_given_back
from autopilot.domain.money import ZERO
from autopilot.ports.store import OwnerTotals, Totals
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.tables import MemoryTables


class MemoryLedger(MemoryRepository):
    __slots__ = ()

    async def post(self, entries: Iterable[LedgerEntry]) -> int:
        with self._access.write() as tables:
            return sum([tables.add_entry(entry) for entry in entries])

    async def list_entries(self, lease_id: str) -> tuple[LedgerEntry, ...]:
        tables = self._access.read()
        found = (tables.entries.get(id) for id in tables.entries_by_lease.get(lease_id) or ())
        return tuple(sorted(filter(None, found), key=lambda entry: (entry.posted_at, entry.id)))

    async def sum_corrections(
        self, since: datetime, *, job_id: str | None = None, from_day: date | None = None
    ) -> Decimal:
        tables = self._access.read()
        billed = (each for each in tables.bill_entries.values() if from_day is None or each.day >= from_day)
        gone = [lease.id for lease in tables.leases.values() if lease.ending.gone_at and lease.ending.gone_at <= since]
        spent = (each.amount for each in billed if each.posted_at >= since and job_id in (None, each.job_id))
        released = [await self._sum_released(lease_id, since, job_id) for lease_id in gone]
        return sum(spent, ZERO) - sum(released, ZERO)

    async def _sum_released(self, lease_id: str, since: datetime, job_id: str | None) -> Decimal:
        entries = [each for each in await self.list_entries(lease_id) if job_id in (None, each.job_id)]
        before = (each.amount for each in entries if each.type in BILL_TYPES and each.posted_at < since)
        held = (each.amount for each in entries if each.type in RESERVE_TYPES and each.posted_at > since)
        return sum_given_back(sum(before, ZERO), sum(held, ZERO))

    async def sum_by_day(self, lease_ids: Sequence[str]) -> Mapping[str, Mapping[tuple[CostKind, date], Decimal]]:
        tables = self._access.read()
        return {lease_id: dict(tables.posted.get(lease_id) or {}) for lease_id in lease_ids}

    async def sum_totals(self, day: date) -> Totals:
        tables = self._access.read()
        first, after = _month_of(day)
        month = sum((tables.spent_on.get(each) or ZERO for each in tables.spent_on if first <= each < after), ZERO)
        return Totals(day=tables.spent_on.get(day) or ZERO, month=month)

    async def sum_arrays(self, array_ids: Collection[str]) -> Mapping[str, OwnerTotals]:
        tables = self._access.read()
        return {id: _sum_jobs(tables, tables.tasks_by_array.get(id) or ()) for id in array_ids}

    async def sum_owners(self, owners: Collection[int], since: date | None) -> OwnerTotals:
        return self._sum_jobs(lambda job: job.owner in owners, since)

    async def sum_schedule(self, schedule_id: str, since: date | None) -> OwnerTotals:
        return self._sum_jobs(lambda job: job.schedule_id == schedule_id, since)

    async def sum_market(self, provider: str, since: datetime | None) -> OwnerTotals:
        tables = self._access.read()
        there = [each for each in tables.leases.values() if each.provider == provider and each.is_rented_since(since)]
        posted, held = ZERO, ZERO
        for lease in there:
            entries = [each for each in await self.list_entries(lease.id) if not _is_certification(tables, each.job_id)]
            posted += sum((each.amount for each in entries if each.type in SPEND_TYPES), ZERO)
            if tables.unsettled.get(lease.id):
                held += sum((each.amount for each in entries if each.type in RESERVE_TYPES), ZERO)
        return OwnerTotals(posted, held)

    def _sum_jobs(self, is_meant: Callable[[Job], bool], since: date | None) -> OwnerTotals:
        tables = self._access.read()
        return _sum_jobs(tables, {job.id for job in tables.jobs.values() if is_meant(job)}, since)

    async def sum_held(self) -> Mapping[str | None, Decimal]:
        return sum_held(self._access.read())

    async def sum_books(self, lease_ids: Sequence[str]) -> Mapping[str, LeaseBooks]:
        tables = self._access.read()
        return {lease_id: tables.books.get(lease_id) or LeaseBooks() for lease_id in lease_ids}


def _sum_jobs(tables: MemoryTables, ids: Collection[str], since: date | None = None) -> OwnerTotals:
    lease_ids = [lease_id for job_id in ids for lease_id in tables.leases_by_job.get(job_id) or ()]
    sums = (item for lease_id in lease_ids for item in (tables.posted.get(lease_id) or {}).items())
    posted = sum((amount for (_, day), amount in sums if since is None or day >= since), ZERO)
    return OwnerTotals(posted, sum((sum_held_of(tables, job_id) for job_id in ids), ZERO))


def _is_certification(tables: MemoryTables, job_id: str | None) -> bool:
    return job_id is not None and tables.certifications.get(job_id) is not None


def sum_held(tables: MemoryTables) -> dict[str | None, Decimal]:
    """By job: the open reserves of machines that are gone and not yet settled."""
    held: dict[str | None, Decimal] = {}
    for lease_id in tables.unsettled:
        lease, books = tables.leases.get(lease_id), tables.books.get(lease_id)
        if lease is not None and books is not None:
            held[lease.job_id] = held.get(lease.job_id, ZERO) + books.reserved
    return held


def sum_held_of(tables: MemoryTables, job_id: str) -> Decimal:
    """The same of one job."""
    unsettled = (id_ for id_ in tables.leases_by_job.get(job_id) or () if tables.unsettled.get(id_))
    books = (tables.books.get(lease_id) for lease_id in unsettled)
    return sum((each.reserved for each in books if each is not None), ZERO)


def _month_of(day: date) -> tuple[date, date]:
    """The first day of the month and of the next one."""
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)
