"""The first job that ends well on a market without a certificate proves it by use: its machine stays, gets no more
permits, and must destroy itself.

The job's outcome is final at once. What the machine may cost until then is reserved as for a hold, against the limits
and budgets that all of its cost counts against, the allowance among them; where one has no room for it, the machine is
released like any other, and the next job proves the market. Where machines cannot destroy themselves, the ordinary
destroy is what is looked at, and nothing is kept for it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.actions import Hold, Note, Release
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.market import Market
from autopilot.domain.money import Number, worst_case
from autopilot.domain.offer import DeadMan
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.hold import BEGINS_WITHIN, Answer, find_unpaid
from autopilot.policy.migration import is_given_up

GOES_WITHIN = timedelta(minutes=6)
"""From the end of its permit until a machine that ends itself is missing from the lists."""
KEPT_FOR = GOES_WITHIN + timedelta(minutes=2)
"""From there until it is destroyed at the latest, should no list have told by then."""
LONGEST = timedelta(seconds=budget.SHORT_PERMIT_S) + KEPT_FOR
"""For so long a machine is kept at the most."""


def prove(job: Job, market: Market, now: datetime, params: Params) -> Answer | None:
    """What is done with the main machine of a job that has ended well; None: it is released like any other."""
    main = job.main
    if main is None or job.status is not JobStatus.SUCCEEDED:
        return None
    if main.is_proving and main.held_until is not None:
        over = _why_over(job, main, main.held_until, market, now, params)
        return ((Release(main.id, over),) if over else ()), ()
    until = _lapses_by(job, main, market, now, params)
    if until is None:
        return None
    needed = budget.hold_reserve(replace(main, held_until=until))
    lacking = find_unpaid(job, market, -needed, params)
    numbers: tuple[tuple[str, Number], ...] = (("provider", main.provider), ("reserve", needed))
    if lacking is not None:
        return (Release(main.id, job.reason),), (Note("not_proved", (*numbers, ("because", lacking))),)
    proof = Note("proof", (*numbers, ("until", until.isoformat())))
    return (Hold(main.id, until, Reason.PROVING),), (proof,)


def most_cost(per_hour: Decimal) -> Decimal:
    """Dollars that a machine at that price, disk included, costs at the most while its permit lapses."""
    return worst_case(per_hour, LONGEST)


def is_still_there(lease: Lease) -> bool:
    """Whether a list has shown a machine that proves its market for too long after its permit."""
    ends_at, seen_at = lease.permit_ends_at, lease.observed.seen_at
    return lease.is_proving and ends_at is not None and seen_at is not None and seen_at >= ends_at + GOES_WITHIN


def _lapses_by(job: Job, main: Lease, market: Market, now: datetime, params: Params) -> datetime | None:
    """Until when the machine is kept at the latest; None: it proves nothing, or not at this price."""
    room, able, ends_at = market.room_of(job, main), market.able(main.provider), main.permit_ends_at
    if room is None or not room.proof.is_due or able is None or able.dead_man is not DeadMan.DESTROYS:
        return None
    if ends_at is None or job.finished_at is None or now - job.finished_at > BEGINS_WITHIN:
        return None
    until = ends_at + KEPT_FOR
    # A long permit would cost as much as a job: it is proved again under a short one.
    is_short = now < ends_at and until - now <= LONGEST
    return until if is_short and until <= main.not_after and _may_begin(main, now, params) else None


def _may_begin(main: Lease, now: datetime, params: Params) -> bool:
    """Whether its agent is there, and counts its permit."""
    has_ended = main.agent.exit_code == 0 and main.orders.role is Role.RUN and main.held_until is None
    is_there = main.state is LeaseState.ACTIVE and main.observed.running_since is not None and main.was_listed
    is_well = main.observed.offline_since is None and not is_given_up(main, now, params)
    return has_ended and is_there and is_well


def _why_over(job: Job, main: Lease, until: datetime, market: Market, now: datetime, params: Params) -> Reason | None:
    if now >= until or is_still_there(main):
        return Reason.HOLD_OVER
    if main.permit_ends_at is not None and now < main.permit_ends_at:
        if main.state is LeaseState.PAUSED:
            return main.observed.pause_cause or Reason.UNKNOWN
        if main.observed.offline_since is not None:
            return Reason.HOST_LOST
    return find_unpaid(job, market, budget.counted_twice(main, until, now), params)
