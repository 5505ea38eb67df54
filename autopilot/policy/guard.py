"""A second, independent reading of each decision, just before it is committed. It knows limits and churn, nothing else.

It shares nothing with ``decide`` but the arithmetic of commitments, so that one wrong rule cannot spend past a cap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from autopilot.domain.actions import Acquire, Action, ChangeBid, Decision, Hold, Promote, Release, RunAgain, Veto
from autopilot.domain.after import waited_for
from autopilot.domain.certificate import MAY_BE_TRIED
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.launches import NO_LAUNCHES, LaunchCount
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.market import Allowance, Market
from autopilot.domain.money import ZERO, Number
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.same import Same
from autopilot.policy import budget
from autopilot.policy.purse import MarketPurse, Purse
from autopilot.pricing.rule.bidding import ceiling

PROVED_WITHIN = timedelta(minutes=10)
"""No machine is kept for longer than so after the end of its permit, to see it gone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The account's own caps, over all jobs. ``None``: no such cap."""

    day: Decimal | None
    month: Decimal | None
    max_hourly: Decimal | None
    max_instances: int
    launches_per_job_10min: int
    launches_per_hour: int
    """Machines that were rented, or may have been."""
    refused_per_job_10min: int = 20
    refused_per_hour: int = 200
    """Creates that a market refused. They cost nothing, so there may be many more."""

    @property
    def kept_back_per_hour(self) -> int:
        """Launches of an hour that are kept for jobs whose deadline is close."""
        return self.launches_per_hour // 4


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where all jobs together stand before the action."""

    leases: tuple[Lease, ...]
    """Every lease that is not over, of every job."""
    spent_day: Decimal
    spent_month: Decimal
    """Both with what has accrued and is not posted."""
    launches_job_10min: LaunchCount = NO_LAUNCHES
    launches_hour: LaunchCount = NO_LAUNCHES
    held: Decimal = ZERO
    """Held back for machines that are gone and whose bills are not yet believed."""
    purses: Mapping[str, tuple[Purse, ...]] = field(default_factory=dict)
    """By job: of those that are a token's, or a schedule's."""
    array_purses: Mapping[str, Purse] = field(default_factory=dict)
    """By array: of those of which a task is open."""
    market_purses: Mapping[str, MarketPurse] = field(default_factory=dict)
    """By market: of those without a certificate in force, where an allowance bounds what is spent on them."""

    def market_purse(self, job: Job, provider: str) -> MarketPurse | None:
        """What the job's machines on that market draw on for want of a certificate; None: nothing of the kind."""
        return None if job.certifies == provider else self.market_purses.get(provider)

    def purse_left(self, job: Job, params: Params) -> tuple[Decimal, Reason] | None:
        """Dollars that the job's token and its schedule leave beyond all commitments, and which of them leaves the
        least; None: no such bound."""
        lefts = ((purse.left_for(job, self.leases, params), purse.reason) for purse in self.purses.get(job.id, ()))
        return min(((left, reason) for left, reason in lefts if left is not None), default=None)

    def purses_of(self, job: Job) -> tuple[Purse, ...]:
        """All whose money the job draws on."""
        of_array = () if job.array_id is None else (self.array_purses.get(job.array_id),)
        return (*self.purses.get(job.id, ()), *(purse for purse in of_array if purse is not None))

    def as_limited(self, job: Job, params: Params) -> Job:
        """The job as its limits bind it: a task of an array by those of the array, of which others have taken."""
        purse = None if job.array_id is None else self.array_purses.get(job.array_id)
        return job if purse is None else purse.share_of(job, self.leases, params)

    def with_changed(self, lease: Lease) -> Exposure:
        """With what was decided for that lease."""
        others = tuple(other for other in self.leases if other.id != lease.id)
        return replace(self, leases=(*others, lease))


def allowance(exposure: Exposure, limits: Limits, params: Params, job: Job | None = None) -> Allowance:
    """What the caps leave beyond all that is spent or committed, that burns, and that is rented.

    ``job``: whose token's allowance and whose schedule's budget count too.
    """
    sums = _sum_up(Same(exposure.leases), Same(params))
    purse = None if job is None else exposure.purse_left(job, params)
    committed = exposure.held + sums.committed
    return Allowance(
        day=None if limits.day is None else limits.day - exposure.spent_day - committed,
        month=None if limits.month is None else limits.month - exposure.spent_month - committed,
        hourly=None if limits.max_hourly is None else limits.max_hourly - sums.burn,
        instances=limits.max_instances - sums.live,
        purse=None if purse is None else purse[0],
        purse_reason=Reason.OVER_ALLOWANCE if purse is None else purse[1],
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    committed: Decimal
    burn: Decimal
    live: int


@lru_cache(4)
def _sum_up(leases: Same[tuple[Lease, ...]], params: Same[Params]) -> _Sums:
    """Asked for each job of a tick, and the same until one of them changes something."""
    held = leases.value
    committed = sum((budget.commitment(lease, params.value) for lease in held), ZERO)
    return _Sums(committed, budget.burn(held), sum(1 for lease in held if not lease.is_over))


@dataclass(frozen=True, slots=True)
class _Unheard:
    """What machines may cost should the daemon be lost right after the action. A short permit is not held back for, so
    a further machine, or a raise, must fit beside what those that run may bill until theirs end.
    """

    now: datetime | None
    """None: the action makes nothing dearer that runs on its permit alone."""
    params: Params
    raised: Lease | None = None
    """With the bid that the action makes."""

    @classmethod
    def after(cls, action: Action, job: Job, now: datetime, params: Params) -> _Unheard:
        match action:
            case Acquire():
                return cls(now, params)
            case ChangeBid(lease_id, bid):
                lease = _lease(job, lease_id)
                return cls(now, params, None if lease is None else replace(lease, bid=bid))
        return cls(None, params)

    def cost(self, leases: Iterable[Lease]) -> Decimal:
        """Dollars beyond their commitments."""
        if self.now is None:
            return ZERO
        raised = self.raised
        after = (raised if raised is not None and each.id == raised.id else each for each in leases)
        return budget.permits_outstanding(after, self.now, self.params)


Refusal = tuple[Reason, tuple[tuple[str, Number], ...]]


def guard(
    job: Job, decision: Decision, market: Market, exposure: Exposure, limits: Limits, now: datetime, params: Params
) -> tuple[tuple[Action, ...], tuple[Veto, ...]]:
    """The actions that may go on, and those that may not. At most one Acquire of a decision passes."""
    allowed: list[Action] = []
    vetoes: list[Veto] = []
    pledged, pledged_per_hour = ZERO, ZERO
    pledged_on: dict[str, Decimal] = {}
    for action in decision.actions:
        more, more_per_hour = _growth(job, action, params)
        refusal = _refusal(job, action, more, allowed, market, exposure, limits, params)
        is_growth = more > ZERO or more_per_hour > ZERO
        purse = _market_purse(job, action, exposure)
        pledged_there = more if purse is None else more + pledged_on.get(purse.market, ZERO)
        if refusal is None and is_growth:
            unheard = _Unheard.after(action, job, now, params)
            refusal = (
                _unobserved_for_long(job, action, exposure, now)
                or _over_caps(job, pledged + more, pledged_per_hour + more_per_hour, exposure, limits, unheard)
                or _over_uncertified(purse, pledged_there, exposure, unheard)
            )
        if refusal is None:
            allowed.append(action)
            if purse is not None:
                pledged_on[purse.market] = pledged_there
            pledged, pledged_per_hour = pledged + more, pledged_per_hour + more_per_hour
        else:
            vetoes.append(Veto(action, *refusal))
    return tuple(allowed), tuple(vetoes)


def _market_purse(job: Job, action: Action, exposure: Exposure) -> MarketPurse | None:
    """Which allowance of a market without a certificate the action draws on."""
    match action:
        case Acquire():
            return exposure.market_purse(job, action.offer.provider)
        case ChangeBid(lease_id) | Hold(lease_id):
            lease = _lease(job, lease_id)
            purse = None if lease is None else exposure.market_purse(job, lease.provider)
            return purse if purse is not None and lease is not None and purse.draws(lease) else None
    return None


def _growth(job: Job, action: Action, params: Params) -> tuple[Decimal, Decimal]:
    """Dollars that the action commits and $/h that it may burn, beyond what its lease already does."""
    match action:
        case Acquire(_, offer, _, bid):
            return budget.start_reserve(job, offer, bid, params), bid + offer.storage_rate(job.spec.disk_gb)
        case ChangeBid(lease_id, bid):
            lease = _lease(job, lease_id)
            if lease is not None and bid > lease.bid:
                grown = budget.commitment(replace(lease, bid=bid), params) - budget.commitment(lease, params)
                return grown, bid - lease.bid
        case Hold(lease_id, until):
            lease = _lease(job, lease_id)
            if lease is not None:
                held = replace(lease, held_until=until)
                return budget.commitment(held, params) - budget.commitment(lease, params), ZERO
    return ZERO, ZERO


def _refusal(
    job: Job,
    action: Action,
    reserve: Decimal,
    allowed: Iterable[Action],
    market: Market,
    exposure: Exposure,
    limits: Limits,
    params: Params,
) -> Refusal | None:
    """Why the action may not go on, caps on money apart."""
    match action:
        case Acquire() if job.is_array:
            return Reason.IS_ARRAY, ()
        case Acquire() if job.waits_for_jobs:
            return Reason.WAITING_FOR_JOBS, (("jobs", len(waited_for(job.spec.after))),)
        case Acquire():
            if any(isinstance(other, Acquire) for other in allowed) or not _is_free(job, action.slot, allowed):
                return Reason.SLOT_TAKEN, (("slot", action.slot),)
            return _acquire_refusal(job, action, reserve, market, exposure, limits, params)
        case ChangeBid(lease_id, bid):
            lease = _lease(job, lease_id)
            if lease is None or bid <= lease.bid:
                return None
            limit = ceiling(job.spec, lease.on_demand_price, params)
            return None if limit is not None and bid <= limit else _above_ceiling(bid, limit)
        case RunAgain(lease_id):
            held = job.main
            has_ended = held is not None and held.id == lease_id and held.agent.exit_code is not None
            return None if has_ended else (Reason.SLOT_TAKEN, (("slot", Slot.MAIN),))
        case Hold():
            may_be = _may_prove(job, action, exposure) if action.reason is Reason.PROVING else _may_be_held(job, action)
            return None if may_be else (Reason.SLOT_TAKEN, (("slot", Slot.MAIN),))
        case Promote():
            freed = _is_free(job, Slot.MAIN, allowed)
            return None if freed else (Reason.SLOT_TAKEN, (("slot", Slot.MAIN),))
        case _:
            return None


def _may_be_held(job: Job, hold: Hold) -> bool:
    """Where the job has failed."""
    main = job.main
    is_failed = job.status is JobStatus.FAILED and main is not None and main.agent.exit_code not in (None, 0)
    return is_failed and main is not None and _is_first_hold(main, hold)


def _may_prove(job: Job, hold: Hold, exposure: Exposure) -> bool:
    """Where the job has ended well on a market without a certificate, for no longer than a short permit lasts."""
    main = job.main
    if main is None or job.status is not JobStatus.SUCCEEDED or main.permit_ends_at is None:
        return False
    purse = exposure.market_purse(job, main.provider)
    is_unproved = purse is not None and purse.draws(main) and purse.proof.is_due
    is_short = (main.permit.ttl_s or 0) <= budget.SHORT_PERMIT_S and hold.until - main.permit_ends_at <= PROVED_WITHIN
    return is_unproved and is_short and _is_first_hold(main, hold)


def _is_first_hold(main: Lease, hold: Hold) -> bool:
    """Once, one a job, within its lifetime."""
    return main.id == hold.lease_id and not main.held_until and hold.until <= main.not_after


def _is_free(job: Job, slot: Slot, allowed: Iterable[Action]) -> bool:
    """The slot is empty, or its lease is released by this very decision.

    One without an instance keeps its slot even when released, until its create is resolved.
    """
    held = job.lease_in(slot)
    if held is None:
        return True
    is_released = any(isinstance(other, Release) and other.lease_id == held.id for other in allowed)
    return is_released and held.instance_id is not None


def _unobserved_for_long(job: Job, action: Action, exposure: Exposure, now: datetime) -> Refusal | None:
    """Nothing new is spent for a job, or on a market, of whose leases there was no word for long."""
    provider = action.offer.provider if isinstance(action, Acquire) else None
    for lease in exposure.leases:
        concerns = lease.job_id == job.id or lease.provider == provider
        if concerns and budget.is_stale(lease, now):
            return Reason.MARKET_UNKNOWN, (
                ("lease_id", lease.id),
                ("unobserved_s", int((now - lease.observed_at).total_seconds())),
            )
    return None


def _acquire_refusal(
    job: Job,
    action: Acquire,
    reserve: Decimal,
    market: Market,
    exposure: Exposure,
    limits: Limits,
    params: Params,
) -> Refusal | None:
    if not market.knows(action.offer.provider):
        return Reason.MARKET_UNKNOWN, ()
    lack = _refuse_uncertified(job, action.offer.provider, market, exposure)
    if lack is not None:
        return lack
    live = sum(1 for lease in exposure.leases if not lease.is_over)
    if live >= limits.max_instances:
        return Reason.TOO_MANY_INSTANCES, (("live", live), ("limit", limits.max_instances))
    pace = _too_many_launches(action, exposure, limits)
    if pace is not None:
        return pace
    if action.capacity_type is CapacityType.SPOT:
        limit = ceiling(job.spec, action.offer.on_demand_price, params)
        if limit is None or action.bid > limit:
            return _above_ceiling(action.bid, limit)
    elif job.spec.max_hourly is not None and action.bid > job.spec.max_hourly:
        return Reason.OVER_RATE_LIMIT, (("bid", action.bid), ("limit", job.spec.max_hourly))
    credit = market.providers[action.offer.provider].credit
    if credit is not None and credit < reserve:
        return Reason.LOW_CREDIT, (("credit", credit), ("reserve", reserve))
    return None


def _refuse_uncertified(job: Job, provider: str, market: Market, exposure: Exposure) -> Refusal | None:
    """Without a certificate and an allowance, nothing; with the allowance, one machine at a time for all jobs until the
    market is proved by use, and while it shows a machine whose destroy it has taken."""
    lack, purse = market.lack_for(job, provider), exposure.market_purse(job, provider)
    if lack is not None and (purse is None or lack not in MAY_BE_TRIED):
        return Reason.NOT_CERTIFIED, (("provider", provider), ("certificate", lack))
    if purse is not None and purse.is_full(exposure.leases):
        return Reason.ONE_UNCERTIFIED, (("provider", provider),)
    return None


def _over_uncertified(
    purse: MarketPurse | None, more: Decimal, exposure: Exposure, unheard: _Unheard
) -> Refusal | None:
    """``more``: dollars committed on that market."""
    left = None if purse is None else purse.left(exposure.leases, unheard.params)
    if purse is None or left is None:
        return None
    left -= unheard.cost(purse.drawing(exposure.leases))
    if more <= left:
        return None
    return Reason.OVER_UNCERTIFIED, (("provider", purse.market), ("needed", more), ("left", left))


def _too_many_launches(action: Acquire, exposure: Exposure, limits: Limits) -> Refusal | None:
    """A market that keeps failing is not paid again and again, nor asked for ever."""
    kept_back = 0 if action.reason is Reason.DEADLINE else limits.kept_back_per_hour
    job, all_jobs = exposure.launches_job_10min, exposure.launches_hour
    for reason, name, count, limit in (
        (Reason.TOO_MANY_LAUNCHES, "in_10_minutes", job.rented, limits.launches_per_job_10min),
        (Reason.TOO_MANY_LAUNCHES, "in_1_hour", all_jobs.rented, limits.launches_per_hour - kept_back),
        (Reason.TOO_MANY_REFUSALS, "in_10_minutes", job.refused, limits.refused_per_job_10min),
        (Reason.TOO_MANY_REFUSALS, "in_1_hour", all_jobs.refused, limits.refused_per_hour),
    ):
        if count >= limit:
            return reason, ((name, count), ("limit", limit))
    return None


def _above_ceiling(bid: Decimal, limit: Decimal | None) -> Refusal:
    return Reason.BID_ABOVE_CEILING, (("bid", bid), ("ceiling", limit))


def _lease(job: Job, lease_id: str) -> Lease | None:
    return next((lease for lease in job.leases if lease.id == lease_id), None)


def _over_purses(job: Job, more: Decimal, exposure: Exposure, unheard: _Unheard) -> Refusal | None:
    for purse in exposure.purses.get(job.id, ()):
        left = purse.left_for(job, exposure.leases, unheard.params)
        if left is not None and more > (left := left - unheard.cost(purse.drawing(exposure.leases))):
            return purse.reason, (("needed", more), ("left", left))
    return None


def _on_budget(job: Job, exposure: Exposure) -> tuple[Lease, ...]:
    """Whose cost counts towards the job's budget: an array's tasks have one together."""
    purse = None if job.array_id is None else exposure.array_purses.get(job.array_id)
    return job.leases if purse is None else tuple(purse.drawing(exposure.leases))


def _over_caps(
    job: Job, more: Decimal, more_per_hour: Decimal, exposure: Exposure, limits: Limits, unheard: _Unheard
) -> Refusal | None:
    """The first cap that ``more`` dollars committed, or ``more_per_hour`` $/h burnt, would break."""
    params = unheard.params
    if job.spec.budget is not None:
        after = budget.sum_committed(job, params) + more + unheard.cost(_on_budget(job, exposure))
        if after > job.spec.budget:
            return Reason.OVER_BUDGET, (("committed", after), ("budget", job.spec.budget))
    if job.spec.max_rate is not None:
        burn = budget.burn(job.leases) + more_per_hour
        if burn > job.spec.max_rate:
            return Reason.OVER_RATE_LIMIT, (("burn", burn), ("limit", job.spec.max_rate))
    if (refusal := _over_purses(job, more, exposure, unheard)) is not None:
        return refusal
    open_commitments = exposure.held + sum((budget.commitment(lease, params) for lease in exposure.leases), ZERO)
    open_commitments += unheard.cost(exposure.leases)
    for reason, spent, limit in (
        (Reason.OVER_DAY_LIMIT, exposure.spent_day, limits.day),
        (Reason.OVER_MONTH_LIMIT, exposure.spent_month, limits.month),
    ):
        after = spent + open_commitments + more
        if limit is not None and after > limit:
            return reason, (("committed", after), ("limit", limit))
    if limits.max_hourly is not None:
        burn = budget.burn(exposure.leases) + more_per_hour
        if burn > limits.max_hourly:
            return Reason.OVER_RATE_LIMIT, (("burn", burn), ("limit", limits.max_hourly))
    return None
