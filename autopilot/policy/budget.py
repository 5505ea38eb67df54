"""What may still be spent. A lease commits us to more than it has cost: stopping it safely takes time and money.

    committed = spent + held back: Σ stop cost of the live leases + Σ reserves of open intents
                + Σ what the bills of machines that are gone may still bring
                + Σ the rest of the holds of machines whose jobs are over             (docs/explanation/money.md)
    stop cost = bid × (detection + longest wait for the last checkpoint + destroy) + storage rate × tail + traffic

``spent`` is what is posted, what has accrued beyond it, and ``unobserved_cost``: what a lease may have cost since it
was last observed, at the most that it can bill an hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import ceil

from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job
from autopilot.domain.lease import UPLOADS_UNREPORTED, Lease, LeaseState, unmetered_traffic, unwatched_since
from autopilot.domain.money import ZERO, ceil_nano, storage_rate, worst_case
from autopilot.domain.offer import DeadMan, Offer
from autopilot.domain.params import Params
from autopilot.domain.same import Same
from autopilot.pricing.traffic import largest_upload_gb, received_gb

STALE_AFTER = timedelta(minutes=15)
"""A lease of which there was no word for so long: nothing new is spent for its job or on its market."""
SHORT_PERMIT_S = 900
"""So long a permit may be without being held back: near a limit it is shortened. What is longer is held back whole."""
PERMIT_LEAST_S = 180
"""Shorter than this a permit would run out between two renewals of a daemon that is alive."""
REMEMBERED = 512
"""Leases, and starts for jobs, as they are at one moment, of which what is held back is kept."""
LEAST_TAIL = timedelta(hours=1)
PERMIT_TAIL_S = 240
"""What a machine may need once its permit has run out: to look for newer orders if it has slept, to save, to go."""
SAVES_ALONE = 17
"""Checkpoints that a machine can send under one permit without newer orders: their slots, and the outputs."""
HELD_IN_STEPS_S = 600
"""What is held back for a permit changes in steps of so long: each change is an entry in the ledger."""


def stop_cost(bid: Decimal, storage_rate: Decimal, params: Params, tail: timedelta | None = None) -> Decimal:
    """Dollars to detect, save and destroy an instance that bills so much ($/h), rounded up.

    ``tail``: how long its disk may bill after that; None: as the parameters say.
    """
    return worst_case(bid, _stopping(params)) + worst_case(storage_rate, _tail(tail, params))


def _stopping(params: Params) -> timedelta:
    return timedelta(seconds=params.budget.detect_s + params.budget.save_timeout_s + params.budget.destroy_s)


def _tail(tail: timedelta | None, params: Params) -> timedelta:
    return timedelta(hours=params.budget.tail_h) if tail is None else tail


def create_reserve(
    bid: Decimal,
    storage_rate: Decimal,
    params: Params,
    traffic: Decimal = ZERO,
    tail: timedelta | None = None,
    unwatched: timedelta | None = None,
) -> Decimal:
    """Set aside with an intent: the stop cost of the lease it may become, and what it may bill unobserved meanwhile.

    ``traffic``: what it will send and receive in any case (``traffic_cost``); ``tail`` as in ``stop_cost``;
    ``unwatched`` as in ``unwatched_time``.
    """
    unobserved = worst_case(bid + storage_rate, timedelta(seconds=params.budget.settle_s))
    left_alone = worst_case(bid, unwatched or timedelta(0))
    return stop_cost(bid, storage_rate, params, tail) + unobserved + traffic + left_alone


def start_reserve(job: Job, offer: Offer, bid: Decimal, params: Params) -> Decimal:
    """Dollars set aside when a machine is rented from ``offer`` for the job at that bid ($/h)."""
    prices = offer.storage_price, offer.upload_price, offer.download_price
    return _start_reserve(Same(job), bid, *prices, offer.dead_man, Same(params))


@lru_cache(REMEMBERED)
def _start_reserve(
    job: Same[Job],
    bid: Decimal,
    storage_price: Decimal,
    upload_price: Decimal,
    download_price: Decimal,
    dead_man: DeadMan,
    params: Same[Params],
) -> Decimal:
    """A decision asks for it of many offers that cost the same, and several times."""
    storage = storage_rate(storage_price, job.value.spec.disk_gb)
    tail = disk_tail(job.value, bid + storage, params.value, dead_man)
    traffic = traffic_cost(upload_price, download_price, job.value, params.value)
    return create_reserve(bid, storage, params.value, traffic, tail, unwatched_time(dead_man, params.value))


def unwatched_time(dead_man: DeadMan, params: Params) -> timedelta | None:
    """How long a machine may run at our cost should the daemon be lost; None: it ends its own bill for compute."""
    return timedelta(hours=params.budget.unwatched_h) if dead_man is DeadMan.NONE else None


def disk_tail(job: Job, burn: Decimal, params: Params, dead_man: DeadMan = DeadMan.DESTROYS) -> timedelta:
    """How long a slow destroy is provided for: as long as the job is, from an hour up to the parameters' limit.

    The job's length is what is left of its estimate; without one, for how long its budget lasts at ``burn`` ($/h).
    If an unobserved machine cannot destroy itself, the length does not matter.
    """
    longest = timedelta(hours=params.budget.tail_h)
    if dead_man is not DeadMan.DESTROYS:
        return longest
    length = job.remaining_work
    if length is None and job.spec.budget is not None and burn > ZERO:
        length = timedelta(hours=float(min(job.spec.budget / burn, Decimal(params.budget.tail_h))))
    return longest if length is None else min(longest, max(LEAST_TAIL, length))


def traffic_cost(upload_price: Decimal, download_price: Decimal, job: Job, params: Params) -> Decimal:
    """Dollars for what a new machine receives while it is set up, and sends before we may know of it and at its end.

    The prices are in $/GB.
    """
    sent = upload_price * UPLOADS_UNREPORTED * largest_upload_gb(job, params)
    return ceil_nano(download_price * received_gb(job, params)) + ceil_nano(sent)


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of what is held back for one lease, in dollars."""

    purpose: str
    kind: CostKind
    amount: Decimal


def has_long_permit(lease: Lease) -> bool:
    """Whether its machine works on unheard for so long that it is held back for.

    One that cannot end its bill gains nothing by going: it works to the end of its life, and ``unwatched`` is held.
    """
    ends_itself, permit = lease.billing.unwatched is None, lease.permit
    return ends_itself and permit.renewed_at is not None and (permit.ttl_s or 0) > SHORT_PERMIT_S


def holdings(lease: Lease, params: Params) -> tuple[Holding, ...]:
    """What the lease may cost beyond what it has, regardless of decisions from now on, and what for."""
    is_refused = lease.state is LeaseState.ABANDONED and not lease.may_be_billed
    if is_refused or lease.billing.settled_at is not None:
        return ()
    unobserved = lease.billing.unobserved
    bill = (Holding("bill", CostKind.COMPUTE, unobserved),) if unobserved else ()
    if lease.state is LeaseState.INTENT:
        return Holding("start", CostKind.COMPUTE, lease.billing.reserved), *bill
    traffic = Holding("traffic", CostKind.BANDWIDTH, unmetered_traffic(lease))
    if lease.is_over:
        return traffic, *bill
    return (
        *bill,
        Holding("safe_stop", CostKind.COMPUTE, worst_case(lease.bid, _stopping(params))),
        Holding("disk", CostKind.STORAGE_RUNNING, worst_case(lease.storage_rate, _tail(lease.billing.tail, params))),
        traffic,
        *_left_alone(lease),
        *([Holding("permit", CostKind.COMPUTE, permit_reserve(lease, params))] if has_long_permit(lease) else []),
        *([Holding("hold", CostKind.COMPUTE, hold_reserve(lease))] if lease.held_until and lease.is_wanted else []),
    )


def _left_alone(lease: Lease) -> tuple[Holding, ...]:
    time = lease.billing.unwatched
    return () if time is None else (Holding("unwatched", CostKind.COMPUTE, worst_case(lease.bid, time)),)


def permit_reserve(lease: Lease, params: Params) -> Decimal:
    """Dollars for a long permit: the machine to its end, what it sends meanwhile, and the disk of one that is outbid.

    From its last observation on: until then it is in what is spent. What the stop after it costs is held apart.
    """
    renewed_at, ttl_s = lease.permit.renewed_at, lease.permit.ttl_s
    if renewed_at is None or ttl_s is None:
        return ZERO
    left_s = (renewed_at + timedelta(seconds=ttl_s) - max(renewed_at, lease.observed_at)).total_seconds()
    if left_s <= 0:
        return ZERO
    steps = ceil(left_s / HELD_IN_STEPS_S)
    return worst_case(lease.burn_upper, timedelta(seconds=steps * HELD_IN_STEPS_S)) + beside_permit(lease, params)


def beside_permit(lease: Lease, params: Params) -> Decimal:
    """Dollars that a long permit may cost beyond its time, however long it is.

    Uploads that are reported too late, and the disk of a machine that is outbid meanwhile. That machine does not run,
    so nothing ends its bill: its disk is held back for as long as any (``tail_h``, a day).
    """
    tail = _tail(lease.billing.tail, params)
    paused = worst_case(lease.storage_rate, max(_tail(None, params) - tail, timedelta(0)))
    return paused + ceil_nano(lease.traffic.upload_price * lease.traffic.upload_gb * SAVES_ALONE)


def hold_reserve(lease: Lease) -> Decimal:
    """Dollars for the time for which it is held, from its last observation on: until then it is in what is spent."""
    if lease.held_until is None:
        return ZERO
    return worst_case(lease.burn_upper, max(lease.held_until - lease.observed_at, timedelta(0)))


def counted_twice(lease: Lease, until: datetime, now: datetime) -> Decimal:
    """Dollars of a hold: what it has cost since it was last observed is in what is spent, and still set aside."""
    return hold_reserve(lease) - worst_case(lease.burn_upper, max(until - now, timedelta(0)))


def commitment(lease: Lease, params: Params) -> Decimal:
    """Dollars that are held back for the lease."""
    return _commitment(Same(lease), Same(params))


@lru_cache(REMEMBERED)
def _commitment(lease: Same[Lease], params: Same[Params]) -> Decimal:
    """Each task of an array asks for it of all machines of that array."""
    return sum((held.amount for held in holdings(lease.value, params.value)), ZERO)


def unobserved_cost(lease: Lease, now: datetime, params: Params) -> Decimal:
    """The most that the lease can have cost since it was last observed, in dollars: nothing of that is booked yet.

    The market may have started it, or not carried out our destroy, right after that observation.
    """
    if lease.is_over:
        return ZERO
    since, most = lease.observed_at, lease.burn_upper
    if lease.state is LeaseState.INTENT:
        since += timedelta(seconds=params.budget.settle_s)  # so much is in its reserve
    elif lease.spans and lease.spans[-1].ended_at is None:
        since = unwatched_since(lease)
        most = max(most, lease.spans[-1].billed_rate + lease.spans[-1].storage_rate)
    elif lease.spans and lease.spans[-1].ended_at is not None:
        since = max(since, lease.spans[-1].ended_at)
    return worst_case(most, now - since) if now > since else ZERO


def held_by_purpose(job: Job, params: Params) -> dict[str, Decimal]:
    """Dollars held back for the job, by what for; ``bill``: for what machines that are gone may still be billed."""
    sums = {"bill": job.held}
    for held in (held for lease in job.leases for held in holdings(lease, params)):
        sums[held.purpose] = sums.get(held.purpose, ZERO) + held.amount
    return {purpose: amount for purpose, amount in sorted(sums.items()) if amount}


def restart_reserve(lease: Lease, params: Params) -> Decimal:
    """Dollars that would be set aside now to rent the machine of ``lease`` again."""
    billing = lease.billing
    traffic = unmetered_traffic(lease)
    return create_reserve(lease.bid, lease.storage_rate, params, traffic, billing.tail, billing.unwatched)


def permits_outstanding(leases: Iterable[Lease], now: datetime, params: Params) -> Decimal:
    """Dollars that machines under short permits may bill from now on beyond what is held back, if no newer orders reach
    them: the daemon may be lost in the very moment in which it rents another, or raises a bid. ``permit_ttl_s``, turned
    round.
    """
    stopping = timedelta(seconds=_stopping_alone_s(params))
    outstanding = ZERO
    for lease in leases:
        renewed_at = lease.permit.renewed_at
        is_held_back = has_long_permit(lease) or lease.billing.unwatched is not None
        if lease.is_over or renewed_at is None or is_held_back:
            continue
        ttl = timedelta(seconds=min(lease.permit.ttl_s or SHORT_PERMIT_S, SHORT_PERMIT_S))
        outstanding += worst_case(lease.burn_upper, max(renewed_at + ttl - now - stopping, timedelta(0)))
    return outstanding


def covers_raise(job: Job, lease: Lease, bid: Decimal, now: datetime, params: Params) -> bool:
    """Whether the job's budget covers the lease at that bid ($/h), beside what all its permits may bill then."""
    left_over, raised = left(job, params), replace(lease, bid=bid)
    after = tuple(raised if each.id == lease.id else each for each in job.leases)
    growth = commitment(raised, params) - commitment(lease, params)
    return left_over is None or growth + permits_outstanding(after, now, params) <= left_over


def is_stale(lease: Lease, now: datetime) -> bool:
    return not lease.is_over and now - lease.observed_at > STALE_AFTER


def sum_committed(job: Job, params: Params) -> Decimal:
    return _sum_committed(Same(job), Same(params))


@lru_cache(REMEMBERED)
def _sum_committed(job: Same[Job], params: Same[Params]) -> Decimal:
    held = (commitment(lease, params.value) for lease in job.value.leases)
    return job.value.spent + job.value.held + sum(held, ZERO)


def burn(leases: Iterable[Lease]) -> Decimal:
    """$/h that these leases may bill at once, at worst."""
    return sum((lease.burn_upper for lease in leases if not lease.is_over), ZERO)


def left(job: Job, params: Params) -> Decimal | None:
    """What the job may spend beyond its commitments; None without a budget."""
    return None if job.spec.budget is None else job.spec.budget - sum_committed(job, params)


def permit_ttl_s(lefts: Iterable[tuple[Decimal | None, Decimal]], longest_s: int, params: Params) -> int:
    """How long a permit may last so that a machine left alone stops itself before any limit is passed.

    ``lefts``: for each limit what is left beyond all commitments, and the $/h that may draw on it at once. What a stop
    was going to take is there too: only the machine itself ends its run then.
    """
    stopping_s = _stopping_alone_s(params)
    shortest = float(longest_s)
    for left_over, per_hour in lefts:
        if left_over is not None and per_hour > ZERO:
            lasts_s = float(max(left_over, ZERO) / per_hour) * 3600
            shortest = min(shortest, stopping_s + lasts_s)
    return max(min(PERMIT_LEAST_S, longest_s), int(shortest))


def _stopping_alone_s(params: Params) -> float:
    """Of the time that is held back for a stop, what a machine that is left alone may work on for."""
    return params.budget.detect_s + params.budget.save_timeout_s + params.budget.destroy_s - PERMIT_TAIL_S
