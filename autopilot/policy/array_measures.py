"""What the width of an array is reckoned of: what a task takes and costs, and which machines could be had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import accrue
from autopilot.domain.params import Params
from autopilot.policy.width import TaskMeasure
from autopilot.pricing.pressure import longer_by
from autopilot.pricing.rule.cost import Candidate

LEARNT_FROM = 3
"""So many finished tasks say better than the estimate how long one takes."""


def like_a_task(job: Job) -> Job:
    """The array as any of its tasks that has not begun: no limit of the whole is a task's own."""
    return replace(job, spec=replace(job.spec, array=None, budget=None, max_rate=None, deadline=None))


def measure_task(job: Job, stands: TaskCounts, candidates: Sequence[Candidate], params: Params) -> TaskMeasure:
    """``candidates``: of a task, cheapest to its end first."""
    spec = job.spec
    best = candidates[0] if candidates else None
    setup = best.setup if best else timedelta(seconds=params.timing.setup_s)
    work = best.work if best else spec.work_estimate
    cost = best.cost if best is not None and work is not None else None
    if stands.succeeded >= LEARNT_FROM or (work is None and stands.succeeded):
        work = stands.work / stands.succeeded
        if best is not None:
            cost = accrue(_per_hour(best, spec.disk_gb), setup + work) + best.traffic
    if work is None:
        return TaskMeasure(None, timedelta(0), None)
    loss = timedelta(seconds=params.timing.tick_lag_s + params.budget.detect_s) + setup + spec.checkpoint_interval
    return TaskMeasure(setup + work, work * longer_by(job, params.deadline) + loss, cost, setup)


def machines_of(
    candidates: Iterable[Candidate], market: Market, held: Iterable[Lease], disk_gb: Decimal, most: int
) -> list[Decimal]:
    """$/h of each machine that could be had beside those ``held``; of a pool there are as many as can be of use,
    ``most``.
    """
    rented = {(lease.provider, lease.machine_id) for lease in held}
    prices: dict[tuple[str, str], Decimal] = {}
    pooled: set[tuple[str, str]] = set()
    for candidate in candidates:
        machine = candidate.offer.provider, candidate.offer.machine_id
        is_pooled = market.providers[candidate.offer.provider].capabilities.is_pooled
        if machine in rented and not is_pooled:
            continue
        price = _per_hour(candidate, disk_gb)
        prices[machine] = min(price, prices.get(machine, price))
        pooled |= {machine} if is_pooled else set()
    return sorted(price for machine, price in prices.items() for _ in range(most if machine in pooled else 1))


def _per_hour(candidate: Candidate, disk_gb: Decimal) -> Decimal:
    return candidate.expected_price + candidate.offer.storage_rate(disk_gb)
