"""What stands beside the ledger: the cost that accrued since the last posting, and what is held back. Machine by
machine, for each that is not over or whose bill is not yet believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.instance import CostKind
from autopilot.domain.lease import Lease
from autopilot.domain.ledger import KindAndDay
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.engine.accrue import sum_unposted
from autopilot.policy.budget import Holding, holdings, unobserved_cost
from autopilot.ports.store import UnitOfWork


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
        """Of what is held: for the time since the market last gave word."""
        return sum((held.amount for held in self.held if held.purpose == "unobserved"), ZERO)

    @property
    def held_total(self) -> Decimal:
        return sum((held.amount for held in self.held), ZERO)


async def read_outstanding(uow: UnitOfWork, now: datetime, params: Params) -> dict[str, Outstanding]:
    """By lease id."""
    live = [lease for job in await uow.jobs.list_open() for lease in job.leases]
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


def select_of_job(job_id: str | None, outstanding: Mapping[str, Outstanding]) -> list[Outstanding]:
    return [each for each in outstanding.values() if each.lease.job_id == job_id]


def money(posted: Decimal, outstanding: Iterable[Outstanding]) -> Money:
    rows = list(outstanding)
    accrued = sum((row.accrued_total for row in rows), ZERO)
    return Money(posted, accrued, sum((row.held_total for row in rows), ZERO))
