"""What the account's own limits and credit mean for a job: the daemon rents nothing past them, under any plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.launches import NO_LAUNCHES, LaunchCount
from autopilot.domain.market import Allowance, Market
from autopilot.domain.money import ZERO, accrue, show
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.time import split_by_day
from autopilot.policy.budget import start_reserve
from autopilot.policy.guard import Limits
from autopilot.pricing.rule.cost import Candidate

LOOKED_AHEAD = timedelta(days=62)
"""For a job without a deadline: the end of this month and all of the next."""
LEAST_LENGTH = timedelta(days=2)
"""Assumed for a job of unknown length: it meets each daily cap that it would meet if it ran on."""


@dataclass(frozen=True, slots=True)
class AccountState:
    limits: Limits
    left: Allowance
    """What the day and month caps, and the limit of machines at one time, leave at this moment."""
    launches_hour: LaunchCount = NO_LAUNCHES
    """By all jobs, in the last hour."""


@dataclass(frozen=True, slots=True)
class Paid:
    """How far the caps let a job get that runs whenever they allow it."""

    paid: Decimal
    day_held: bool
    """The cap of a day has stopped it at least once."""
    month_held: bool


def account_notes(
    job: Job,
    candidates: list[Candidate],
    market: Market,
    account: AccountState,
    expected: Decimal | None,
    now: datetime,
    params: Params,
) -> list[str]:
    """``found``: the candidates, cheapest to the end first. ``expected``: the cost to the end, where it is known."""
    if not candidates:
        return []
    return [
        *_too_many(account),
        *_over_rate(job, candidates, account.limits),
        *_short_of_credit(job, candidates, market, params),
        *_over_caps(job, candidates, account, expected, now, params),
    ]


def paid_until(until: datetime, burn: Decimal, expected: Decimal, account: AccountState, now: datetime) -> Paid:
    """Spends ``burn`` ($/h) from ``now`` on, until the work is paid for, and no more a day or month than is allowed."""
    limits, left = account.limits, account.left
    day_left, month_left, month = left.day, left.month, None
    paid, day_held, month_held = ZERO, False, False
    for day, start, end in split_by_day(now, until):
        if month is not None:
            day_left = limits.day
            month_left = month_left if month == (day.year, day.month) else limits.month
        month = (day.year, day.month)
        wanted = min(accrue(burn, end - start), expected - paid)
        pays = max(min(cap for cap in (wanted, day_left, month_left) if cap is not None), ZERO)
        if pays < wanted:
            by_month = month_left is not None and month_left <= pays
            day_held, month_held = day_held or not by_month, month_held or by_month
        paid += pays
        month_left = None if month_left is None else month_left - pays
        if paid >= expected:
            break
    return Paid(paid, day_held, month_held)


def _too_many(account: AccountState) -> list[str]:
    """Limits on numbers: they only delay."""
    limits, lately, notes = account.limits, account.launches_hour, []
    if account.left.instances is not None and account.left.instances <= 0:
        notes.append(
            f"all {limits.max_instances} machines that the account may have are rented: the job waits until one is"
            " released; or raise [limits] max_instances"
        )
    free = limits.launches_per_hour - limits.kept_back_per_hour
    if lately.rented >= free:
        notes.append(
            f"{lately.rented} machines were rented in the last hour, of {limits.launches_per_hour} that the account"
            f" may rent ({limits.kept_back_per_hour} are kept for urgent deadlines): the job waits up to an hour; or"
            " raise [limits] max_launches_per_hour"
        )
    if lately.refused >= limits.refused_per_hour:
        notes.append(
            f"the markets refused {lately.refused} machines in the last hour: nothing is asked for until fewer than"
            f" {limits.refused_per_hour} were"
        )
    return notes


def _over_rate(job: Job, candidates: list[Candidate], limits: Limits) -> list[str]:
    if limits.max_hourly is None:
        return []
    limit = f"the account's limit of {show(limits.max_hourly)}/h"
    lowest = _lowest_rate(job, candidates)
    if lowest > limits.max_hourly:
        return [
            f"nothing can be rented: the cheapest offer costs {show(lowest, 3)}/h, disk included,"
            f" and {limit} is lower; raise [limits] max_hourly, or ask for less in [resources]"
        ]
    on_demand = [candidate for candidate in candidates if candidate.capacity_type is CapacityType.ON_DEMAND]
    may_fall_back = job.spec.deadline is not None and job.spec.fall_back and job.spec.spot_policy is SpotPolicy.AUTO
    if on_demand and may_fall_back and (lowest := _lowest_rate(job, on_demand)) > limits.max_hourly:
        return [
            f"on-demand capacity, which the deadline may need, costs {show(lowest, 3)}/h, disk included, and {limit} "
            "is lower:"
            " raise [limits] max_hourly, or expect to miss the deadline"
        ]
    return []


def _short_of_credit(job: Job, candidates: list[Candidate], market: Market, params: Params) -> list[str]:
    notes: list[str] = []
    for name in sorted({candidate.offer.provider for candidate in candidates}):
        credit = market.providers[name].credit
        needed = min(_reserve(job, candidate, params) for candidate in candidates if candidate.offer.provider == name)
        if credit is not None and credit < needed:
            notes.append(
                f"{name} can rent nothing to this job: a start sets {show(needed)} aside, and the account there has"
                f" {show(credit)} of credit; pay in there"
            )
    return notes


def _over_caps(
    job: Job,
    candidates: list[Candidate],
    account: AccountState,
    expected: Decimal | None,
    now: datetime,
    params: Params,
) -> list[str]:
    limits, left = account.limits, account.left
    needed = min(_reserve(job, candidate, params) for candidate in candidates)
    for name, cap in (("day", limits.day), ("month", limits.month)):
        if cap is not None and cap < needed:
            return [
                f"nothing can be rented: a start sets {show(needed)} aside, more than the account's limit of"
                f" {show(cap)} a {name}; raise [limits] {name}"
            ]
    burn = candidates[0].expected_price + candidates[0].offer.storage_rate(job.spec.disk_gb)
    until = job.spec.deadline or now + (LEAST_LENGTH if expected is None else LOOKED_AHEAD)
    if burn <= ZERO or until <= now:
        return []
    endless = accrue(burn, until - now)
    wanted = endless if expected is None else min(expected, endless)
    got = paid_until(until, burn, wanted, account, now)
    notes: list[str] = []
    if got.day_held and limits.day is not None:
        notes.append(_day_note(limits.day, left.day, burn))
    if got.month_held and limits.month is not None:
        month_left = max(left.month or ZERO, ZERO)
        notes.append(
            f"the account limit of {show(limits.month)} a month, of which {show(month_left)} is left, is reached at"
            f" {show(burn, 3)}/h: the job is parked until the month is over; raise [limits] month"
        )
    if notes and job.spec.deadline is not None and expected is not None and got.paid < wanted:
        caps = " and ".join(name for name, held in (("day", got.day_held), ("month", got.month_held)) if held)
        notes.append(
            f"until the deadline the account's limits pay for about {show(got.paid)} of the expected {show(expected)}:"
            f" raise [limits] {caps}, or expect to miss the deadline"
        )
    return notes


def _day_note(cap: Decimal, left: Decimal | None, burn: Decimal) -> str:
    at = f"of this at {show(burn, 3)}/h"
    if cap >= burn * 24:
        left = max(left or ZERO, ZERO)
        return (
            f"{show(left)} is left of the account limit of {show(cap)} a day, which pays for about {left / burn:.1f} h"
            f" {at}: the job then waits until 00:00 UTC, unless [limits] day is raised"
        )
    return (
        f"the account limit of {show(cap)} a day pays for about {cap / burn:.1f} h a day {at}: the job is parked for"
        " the rest of each day, unless [limits] day is raised"
    )


def _lowest_rate(job: Job, candidates: Iterable[Candidate]) -> Decimal:
    return min(candidate.bid + candidate.offer.storage_rate(job.spec.disk_gb) for candidate in candidates)


def _reserve(job: Job, candidate: Candidate, params: Params) -> Decimal:
    return start_reserve(job, candidate.offer, candidate.bid, params)
