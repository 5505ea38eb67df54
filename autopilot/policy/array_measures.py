"""The width of an array now, and its inputs: what a task takes and costs, which machines are available."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import accrue
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.policy.eligibility import Eligibility
from autopilot.policy.width import TaskMeasure, Width, choose_width
from autopilot.pricing.pressure import longer_by
from autopilot.pricing.rule.cost import Candidate
from autopilot.pricing.rule.ranking import rank
from autopilot.pricing.traffic import restart_s

LEARNT_FROM = 3
"""So many finished tasks say better than the estimate how long one takes."""


class Chosen(NamedTuple):
    """A width, and its inputs."""

    width: Width
    measure: TaskMeasure


def width_now(
    job: Job,
    counts: TaskCounts,
    leases: Sequence[Lease],
    market: Market,
    now: datetime,
    params: Params,
    *,
    free: Sequence[Decimal] = (),
    budget: Decimal | None = None,
    queued: int = 0,
) -> Chosen:
    """``leases``: of its tasks. ``free``: $/h of machines that wait for a task. The rest as of ``choose_width``."""
    spec = job.spec.array
    assert spec is not None, "of an array"
    left = None if job.spec.deadline is None else job.spec.deadline - now
    like = like_a_task(job)
    candidates = rank(like, market, Eligibility(like, market, now, params).holds, params)
    measure = measure_task(job, counts, candidates.best(), params)
    usable: Iterable[Candidate] = candidates
    if left is not None and _may_bid(job, market):
        # There is time to wait for a bid that wins. What on-demand capacity the deadline asks for is counted apart.
        usable = candidates.of_type(CapacityType.SPOT)
    offered = [*free, *machines_of(usable, market, leases, job.spec.disk_gb, spec.parallel)]
    held = [lease.burn_upper for lease in leases]
    return Chosen(choose_width(spec, counts, measure, held, offered, left, budget, queued), measure)


def _may_bid(job: Job, market: Market) -> bool:
    able = any(market.knows(name) and view.capabilities.spot for name, view in market.providers.items())
    return able and job.spec.spot_policy is not SpotPolicy.ON_DEMAND


def like_a_task(job: Job) -> Job:
    """The array as any of its tasks that has not begun: no limit of the whole is a task's own."""
    return replace(job, spec=replace(job.spec, array=None, budget=None, max_rate=None, deadline=None))


def measure_task(job: Job, counts: TaskCounts, best: Candidate | None, params: Params) -> TaskMeasure:
    """``best``: where a task is cheapest to its end; None: nowhere."""
    spec = job.spec
    setup = best.setup if best else timedelta(seconds=restart_s(job, params))
    work = best.work if best else spec.work_estimate
    cost = best.cost if best is not None and work is not None else None
    if counts.succeeded >= LEARNT_FROM or (work is None and counts.succeeded):
        work = counts.work / counts.succeeded
        if best is not None:
            cost = accrue(_per_hour(best, spec.disk_gb), setup + work) + best.traffic
    if work is None:
        return TaskMeasure(None, timedelta(0), None)
    loss = timedelta(seconds=params.timing.tick_lag_s + params.budget.detect_s) + setup + spec.checkpoint_interval
    return TaskMeasure(setup + work, work * longer_by(job, params.deadline) + loss, cost, setup)


def machines_of(
    candidates: Iterable[Candidate], market: Market, held: Iterable[Lease], disk_gb: Decimal, most: int
) -> list[Decimal]:
    """$/h of the machines that could be had beside those ``held``: so many as can be of use, ``most``, those that are
    cheapest to the end. Of a pool there are as many. ``candidates``: in that order; no more are looked at than needed.
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
        if pooled or len(prices) >= most:
            break
    return sorted(price for machine, price in prices.items() for _ in range(most if machine in pooled else 1))


def _per_hour(candidate: Candidate, disk_gb: Decimal) -> Decimal:
    return candidate.expected_price + candidate.offer.storage_rate(disk_gb)
