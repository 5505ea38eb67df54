"""Money that is not in the ledger yet: the cost accrued since the last posting, and what is reserved. By machine, for
each that is not over or whose bill is not settled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.array import TaskCounts
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import KindAndDay
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.task_shares import share_by_task
from autopilot.engine.accrue import sum_unposted
from autopilot.policy.budget import Holding, holdings, unobserved_cost
from autopilot.ports.store import OwnerTotals, UnitOfWork
from autopilot.ports.store.jobs import JobTitle

NOTHING = OwnerTotals(ZERO, ZERO)


class Money(NamedTuple):
    """Dollars in the ledger, accrued since the last posting, and held back: limits count their sum."""

    posted: Decimal = ZERO
    accrued: Decimal = ZERO
    held: Decimal = ZERO


@dataclass(frozen=True, slots=True)
class Outstanding:
    lease: Lease
    accrued: Mapping[KindAndDay, Decimal]
    """By our own clock."""
    held: tuple[Holding, ...]

    @property
    def accrued_total(self) -> Decimal:
        return sum(self.accrued.values(), ZERO)

    @property
    def unobserved(self) -> Decimal:
        """The part that is reserved for the time since the market's last answer."""
        return sum((held.amount for held in self.held if held.purpose == "unobserved"), ZERO)

    @property
    def held_total(self) -> Decimal:
        return sum((held.amount for held in self.held), ZERO)


@dataclass(frozen=True, slots=True)
class Moment:
    """What several answers about one moment are made of, read once."""

    now: datetime
    jobs: tuple[Job, ...]
    """Those that are open, oldest first."""
    outstanding: Mapping[str, Outstanding]
    """By lease id."""
    _by_job: Mapping[str | None, Sequence[Outstanding]]
    _by_use: Mapping[str, Sequence[Outstanding]] = field(default_factory=dict)
    """The same of machines that several tasks have used, by each of these tasks."""
    titles: Mapping[str, JobTitle] = field(default_factory=dict)
    """By id: of the jobs that those wait for, or have waited for."""
    tasks: Mapping[str, TaskCounts] = field(default_factory=dict)
    """By array, of all that are open or asked for: how their tasks stand."""
    sums: Mapping[str, OwnerTotals] = field(default_factory=dict)
    """By array: what all its tasks have spent, and what is held for their machines that are gone."""

    def of_job(self, job_id: str) -> Sequence[Outstanding]:
        return self._by_job.get(job_id, ())

    def of_whole(self, job: Job) -> Sequence[Outstanding]:
        """For an array: all its tasks together that are open, or that still have a machine."""
        if not job.is_array:
            return self.of_job(job.id)
        return [row for task in self.jobs if task.array_id == job.id for row in self.of_job(task.id)]

    def money_of(self, job: Job) -> Money:
        """For an array: the sum over all its tasks."""
        if not job.is_array:
            return self._money_of_task(job)
        live = [row for row in self.of_whole(job) if not row.lease.is_over]
        sums = self.sums.get(job.id, NOTHING)
        of_live = money(sums.posted, live)
        return of_live._replace(held=of_live.held + sums.held)

    def _money_of_task(self, job: Job) -> Money:
        """What a machine that other tasks have used, too, has run up since is shared; what is held goes with it."""
        own = [row for row in self.of_job(job.id) if not row.lease.is_shared]
        of_job = money(job.spent, self.of_job(job.id))
        shares = (share_by_task(row.lease, row.accrued).get(job.id, {}) for row in self._by_use.get(job.id, ()))
        shared = sum((sum(parts.values(), ZERO) for parts in shares), ZERO)
        return of_job._replace(accrued=sum((row.accrued_total for row in own), shared))


async def read_moment(uow: UnitOfWork, now: datetime, params: Params, others: Iterable[Job] = ()) -> Moment:
    """``others``: jobs that may be over, and that are told of as well."""
    jobs = await uow.jobs.list_open()
    outstanding = await _read_outstanding(uow, jobs, now, params)
    by_job: dict[str | None, list[Outstanding]] = defaultdict(list)
    by_use: dict[str, list[Outstanding]] = defaultdict(list)
    for each in outstanding.values():
        by_job[each.lease.job_id].append(each)
        for job_id in {use.job_id for use in each.lease.uses} if each.lease.is_shared else ():
            by_use[job_id].append(each)
    named = {after.job for job in (*jobs, *others) for after in job.spec.after}
    titles = await uow.jobs.list_titles(named) if named else {}
    arrays = list({job.id for job in (*jobs, *others) if job.is_array})
    tasks = await uow.jobs.count_tasks(arrays) if arrays else {}
    sums = await uow.ledger.sum_arrays(arrays) if arrays else {}
    return Moment(now, jobs, outstanding, by_job, by_use, titles, tasks, sums)


async def _read_outstanding(
    uow: UnitOfWork, jobs: Iterable[Job], now: datetime, params: Params
) -> dict[str, Outstanding]:
    live = [lease for job in jobs for lease in job.leases]
    live += await uow.leases.list_orphans()
    unsettled = await uow.leases.list_unsettled()
    books = await uow.ledger.sum_books([lease.id for lease in (*live, *unsettled)])
    found: dict[str, Outstanding] = {}
    for lease in live:
        unobserved = Holding("unobserved", CostKind.COMPUTE, unobserved_cost(lease, now, params))
        held = tuple(each for each in (*holdings(lease, params), unobserved) if each.amount)
        found[lease.id] = Outstanding(lease, sum_unposted(lease, books[lease.id].accrued, now), held)
    for lease in unsettled:
        reserved = books[lease.id].reserved
        held = (Holding("bill", CostKind.COMPUTE, reserved),) if reserved else ()
        found[lease.id] = Outstanding(lease, sum_unposted(lease, books[lease.id].accrued, now), held)
    return found


def money(posted: Decimal, outstanding: Iterable[Outstanding]) -> Money:
    rows = list(outstanding)
    accrued = sum((row.accrued_total for row in rows), ZERO)
    return Money(posted, accrued, sum((row.held_total for row in rows), ZERO))
