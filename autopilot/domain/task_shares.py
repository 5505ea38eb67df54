"""What each task has cost of a machine that several tasks of one array have used, one after another.

Entries and bills are the lease's. A task's cost is a view of them: each of the lease's amounts is shared by the time
from the order to run to the exit. Boot and idle time are shared in the same proportion. Shares are whole nano-dollars,
by the running total: they add up to the lease's amounts exactly, at any time and after any correction.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from autopilot.domain.lease import Lease, TaskUse
from autopilot.domain.money import ZERO
from autopilot.domain.time import MICROSECOND
from autopilot.domain.zones import share_out

Key = TypeVar("Key", bound=Hashable)


def share_lease(
    amounts: Mapping[Key, Decimal], uses: Sequence[TaskUse], now: datetime
) -> dict[str, dict[Key, Decimal]]:
    """By task, its share of each amount. ``amounts``: of one lease, by any key; each in whole nano-dollars. ``uses``:
    all tasks that the lease was given to, in order; at least one.

    Before any of them has used a moment the first has all of it.
    """
    assert uses, "a lease was made for a task"
    weights = [max((use.ended_at or now) - use.ordered_at, 0 * MICROSECOND) // MICROSECOND for use in uses]
    if not any(weights):
        weights = [1, *[0] * (len(uses) - 1)]
    shared: dict[str, dict[Key, Decimal]] = {use.job_id: {} for use in uses}
    for key, amount in amounts.items():
        for use, part in zip(uses, share_out(amount, weights), strict=True):
            if part:
                of_task = shared[use.job_id]
                of_task[key] = of_task.get(key, ZERO) + part
    return shared


def share_by_task(lease: Lease, amounts: Mapping[Key, Decimal]) -> dict[str | None, dict[Key, Decimal]]:
    """``amounts`` of the lease by the job that each part is a cost of.

    A use that is open lasts until the machine was last observed: so all that read one ledger see the same.
    """
    if not lease.is_shared:
        return {lease.job_id: dict(amounts)}
    shared = share_lease(amounts, lease.uses, lease.observed_at)
    return {job_id: parts for job_id, parts in shared.items()}


def share_spent(
    leases: Iterable[Lease], posted: Mapping[str, Mapping[Key, Decimal]]
) -> tuple[dict[str | None, Decimal], set[str | None]]:
    """By task the dollars of these leases, and the tasks of which that is an estimate yet. ``posted``: by lease."""
    spent: dict[str | None, Decimal] = {}
    estimates: set[str | None] = set()
    for lease in leases:
        for job_id, parts in share_by_task(lease, posted[lease.id]).items():
            spent[job_id] = spent.get(job_id, ZERO) + sum(parts.values(), ZERO)
        if lease.billing.settled_at is None:
            estimates |= {use.job_id for use in lease.uses}
    return spent, estimates


def sum_shares(shared: Iterable[Mapping[Key, Decimal]]) -> dict[Key, Decimal]:
    """What the shares of all tasks add up to."""
    sums: dict[Key, Decimal] = {}
    for of_task in shared:
        for key, part in of_task.items():
            sums[key] = sums.get(key, ZERO) + part
    return sums
