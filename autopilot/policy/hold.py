"""The machine on which a job's last attempt failed stays, for as long as its owner asked for and the money is there.

The job's outcome is final at once. The cost of the hold is reserved when it begins (``budget.hold_reserve``).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.actions import Action, Hold, Note, Release
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.migration import is_given_up

BEGINS_WITHIN = timedelta(minutes=2)
"""After the job has failed: what the guard refuses for so long is given up."""

Answer = tuple[tuple[Action, ...], tuple[Note, ...]]


def hold(job: Job, market: Market, now: datetime, params: Params) -> Answer | None:
    """What is done with the main machine of a job that is over; None: it is released like any other."""
    main = job.main
    if main is None or job.spec.hold is None or job.status is not JobStatus.FAILED:
        return None
    if main.held_until is not None:
        over = _why_over(job, main, main.held_until, market, now, params)
        return ((Release(main.id, over),) if over else ()), ()
    if job.finished_at is None or not _may_begin(main, now, params) or now - job.finished_at > BEGINS_WITHIN:
        return None
    until = min(job.finished_at + job.spec.hold, main.not_after)
    held = replace(main, held_until=until)
    needed = budget.hold_reserve(held)
    lacking = find_unpaid(job, market, -needed, params)
    if lacking is not None:
        note = Note("not_held", (("because", lacking), ("reserve", needed), ("left", budget.left(job, params))))
        return (Release(main.id, job.reason),), (note,)
    return (Hold(main.id, until, job.reason),), ()


def _may_begin(main: Lease, now: datetime, params: Params) -> bool:
    """Whether its run has failed there, and it can be entered."""
    has_failed = main.agent.exit_code not in (None, 0) and main.orders.role is Role.RUN
    is_there = main.state is LeaseState.ACTIVE and main.observed.running_since is not None
    is_well = main.observed.offline_since is None and not is_given_up(main, now, params)
    return has_failed and is_there and is_well and now < main.not_after


def _why_over(job: Job, main: Lease, until: datetime, market: Market, now: datetime, params: Params) -> Reason | None:
    if now >= until:
        return Reason.HOLD_OVER
    if main.state is LeaseState.PAUSED:
        return main.observed.pause_cause or Reason.UNKNOWN
    offline_since = main.observed.offline_since
    if offline_since is not None:
        grace = timedelta(seconds=params.loading.offline_grace_s)
        return Reason.HOST_LOST if now - offline_since >= grace else None
    if main.observed.running_since is not None and is_given_up(main, now, params):
        return Reason.AGENT_SILENT
    return find_unpaid(job, market, budget.counted_twice(main, until, now), params)


def find_unpaid(job: Job, market: Market, more: Decimal, params: Params) -> Reason | None:
    """The limit beyond which the job is, were there so much more room."""
    room = None if job.main is None else market.room_of(job, job.main)
    limits = (
        (Reason.BUDGET_EXHAUSTED, budget.left(job, params)),
        (Reason.OVER_DAY_LIMIT, market.allowance.day),
        (Reason.OVER_MONTH_LIMIT, market.allowance.month),
        (market.allowance.purse_reason, market.allowance.purse),
        (Reason.OVER_UNCERTIFIED, None if room is None else room.left),
    )
    return next((reason for reason, left in limits if left is not None and left + more < ZERO), None)
