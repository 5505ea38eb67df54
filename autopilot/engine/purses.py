"""Where each token's jobs stand together, each schedule's, each array's tasks, and all that is on a market without a
certificate: from the ledger, in the transaction that decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from autopilot.domain.certificate import UseProof
from autopilot.domain.delegation import NO_LIMITED_USERS, Delegation, Settled
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.token import is_of_token
from autopilot.policy.budget import commitment
from autopilot.policy.guard import Exposure
from autopilot.policy.purse import MarketPurse, Purse
from autopilot.ports.store import OwnerTotals, UnitOfWork


async def read_purses(
    uow: UnitOfWork,
    jobs: Iterable[Job],
    unposted: Mapping[str, Decimal],
    now: datetime,
    params: Params,
    settled: Settled = NO_LIMITED_USERS,
) -> dict[str, tuple[Purse, ...]]:
    """By job, of those that are a token's, a schedule's, or of a user whom the settings limit (``settled``).

    A token's jobs draw on its allowance and on that of each of its makers.

    ``unposted``: by lease the dollars beyond what is posted, at worst. What is unposted counts in the present month,
    whenever it fell due; so does what is held back. ``jobs``: all that are open.
    """
    by_owner: dict[int, list[Job]] = defaultdict(list)
    by_schedule: dict[str, list[Job]] = defaultdict(list)
    limited = {user.owner for user in settled.users}
    for job in jobs:
        if is_of_token(job.owner) or job.owner in limited:
            by_owner[job.owner].append(job)
        if job.schedule_id is not None:
            by_schedule[job.schedule_id].append(job)
    found = await _read_allowances(uow, by_owner, unposted, now, params, settled)
    found += await _read_schedule_purses(uow, by_schedule, unposted, now, params)
    purses: dict[str, tuple[Purse, ...]] = defaultdict(tuple)
    for purse in found:
        for job_id in purse.job_ids:
            purses[job_id] += (purse,)
    return dict(purses)


async def _read_allowances(
    uow: UnitOfWork,
    by_owner: Mapping[int, Sequence[Job]],
    unposted: Mapping[str, Decimal],
    now: datetime,
    params: Params,
    settled: Settled,
) -> list[Purse]:
    found = []
    tokens = await uow.tokens.list_all() if by_owner else ()
    delegation = Delegation(tokens, settled)
    for token in (*settled.users, *map(delegation.limit, tokens)):
        family = delegation.family(token.owner)
        of_family = [job for owner in family for job in by_owner.get(owner, ())]
        if of_family and (token.allowance is not None or not token.is_in_force(now)):
            sums = await uow.ledger.sum_owners(family, token.counts_from(now))
            spent = _spent(sums, _leases(of_family), unposted, params)
            found.append(Purse(token.allowance, spent, _ids(of_family), not token.is_in_force(now)))
    known = {user.owner for user in settled.users} | {token.owner for token in tokens}
    for job in (job for owner in by_owner.keys() - known for job in by_owner[owner]):
        # A job of a token that the ledger does not have may spend nothing.
        found.append(Purse(ZERO, ZERO, frozenset([job.id]), has_ended=True))
    return found


async def _read_schedule_purses(
    uow: UnitOfWork,
    by_schedule: Mapping[str, Sequence[Job]],
    unposted: Mapping[str, Decimal],
    now: datetime,
    params: Params,
) -> list[Purse]:
    found = []
    for schedule in await uow.schedules.list_by_ids(by_schedule) if by_schedule else ():
        if schedule.budget is not None:
            firings = by_schedule[schedule.id]
            sums = await uow.ledger.sum_schedule(schedule.id, schedule.counts_from(now))
            spent = _spent(sums, _leases(firings), unposted, params)
            found.append(Purse(schedule.budget, spent, _ids(firings), reason=Reason.OVER_SCHEDULE_BUDGET))
    return found


async def read_array_purses(
    uow: UnitOfWork, jobs: Iterable[Job], unposted: Mapping[str, Decimal], params: Params
) -> dict[str, Purse]:
    """By array: what its tasks have spent, and what is held back for those of their machines that are gone, of its
    budget. Arguments as of ``read_purses``.
    """
    jobs = tuple(jobs)
    # A task may be the last of its array whose machine bills: it counts without the array, and may spend nothing.
    arrays = {job.id: job for job in jobs if job.is_array}
    tasks: dict[str, list[Job]] = {array_id: [] for array_id in arrays}
    for job in jobs:
        if job.array_id is not None:
            tasks.setdefault(job.array_id, []).append(job)
    if not tasks:
        return {}
    sums = await uow.ledger.sum_arrays(list(tasks))
    purses: dict[str, Purse] = {}
    for array_id, of_array in tasks.items():
        array = arrays.get(array_id)
        budget, max_rate = (ZERO, ZERO) if array is None else (array.spec.budget, array.spec.max_rate)
        spent = _spent(sums[array_id], _leases(of_array), unposted, params)
        purses[array_id] = Purse(budget, spent, _ids(of_array), reason=Reason.BUDGET_EXHAUSTED, max_rate=max_rate)
    return purses


async def read_market_purses(
    uow: UnitOfWork,
    jobs: Iterable[Job],
    orphans: Iterable[Lease],
    unposted: Mapping[str, Decimal],
    uncertified: Mapping[str, datetime | None],
    proof_of: Callable[[str], UseProof],
    allowance: Decimal | None,
    params: Params,
) -> dict[str, MarketPurse]:
    """By market: what machines rented since its last certificate ended (``uncertified``; None: ever) have cost of the
    allowance. ``orphans``: machines there of no job. ``proof_of``: whether use has proved the market. The rest as of
    ``read_purses``.
    """
    if allowance is None:
        return {}
    jobs = tuple(jobs)
    certifications = frozenset(job.id for job in jobs if job.certifies)
    held = (*_leases(jobs), *orphans)
    purses = {}
    for market, since in uncertified.items():
        purse = MarketPurse(allowance, ZERO, market, certifications, since, proof_of(market))
        sums = await uow.ledger.sum_market(market, since)
        purses[market] = replace(purse, spent=_spent(sums, purse.drawing(held), unposted, params))
    return purses


def with_tasks(exposure: Exposure, array_id: str, task_ids: Sequence[str]) -> Exposure:
    """With tasks that have just begun: they share the array's budget, and the allowance of its owner's token."""
    if not task_ids:
        return exposure
    new = frozenset(task_ids)
    of_array = exposure.array_purses.get(array_id)
    array_purses = dict(exposure.array_purses)
    if of_array is not None:
        array_purses[array_id] = replace(of_array, job_ids=of_array.job_ids | new)
    purses = dict(exposure.purses)
    before = purses.get(array_id, ())
    grown = {id(purse): replace(purse, job_ids=purse.job_ids | new) for purse in before}
    for job_id, held in exposure.purses.items():
        purses[job_id] = tuple(grown.get(id(purse), purse) for purse in held)
    purses |= dict.fromkeys(new, tuple(grown.values())) if before else {}
    return replace(exposure, purses=purses, array_purses=array_purses)


def _spent(sums: OwnerTotals, leases: Sequence[Lease], unposted: Mapping[str, Decimal], params: Params) -> Decimal:
    """``sums``: of all that was ever theirs; ``leases``: of the jobs that are open."""
    more = sum((unposted.get(lease.id, ZERO) for lease in leases), ZERO)
    # What is held back for machines that go in this very tick; for earlier ones it is in the sums.
    going = sum((commitment(lease, params) for lease in leases if lease.is_over), ZERO)
    return sums.posted + sums.held + more + going


def _leases(jobs: Iterable[Job]) -> list[Lease]:
    return [lease for job in jobs for lease in job.leases]


def _ids(jobs: Sequence[Job]) -> frozenset[str]:
    return frozenset(job.id for job in jobs)
