"""A job whose money has run out: what is told of it, and when it goes on by itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain.actions import Note, SetStatus
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import unobserved_run
from autopilot.domain.market import Allowance, Market
from autopilot.domain.money import CENT, ZERO, Number, worst_case
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy import budget
from autopilot.policy.eligibility import eligible
from autopilot.policy.options import reserve
from autopilot.pricing.rule.cost import price_candidates

_PURSES = {Reason.OVER_ALLOWANCE: "allowance_left", Reason.OVER_SCHEDULE_BUDGET: "schedule_left"}
BILL_TAKES = timedelta(minutes=90)
"""Two looks at a bill, an hour apart, and some."""
LIMIT_REASONS = (Reason.OVER_DAY_LIMIT, Reason.OVER_MONTH_LIMIT, *_PURSES)


def next_reserve(job: Job, market: Market, now: datetime, params: Params) -> Decimal | None:
    """Dollars that the job needs to start again: on its own machine at that machine's terms, without one on the
    cheapest offer. None if it has no machine and no offer matches.
    """
    if job.main is not None:
        return budget.restart_reserve(job.main, params)
    candidates = price_candidates(job, market, eligible(job, market, now, params), params)
    return min((reserve(job, choice, params) for choice in candidates), default=None)


def budget_notes(job: Job, needed: Decimal | None, params: Params) -> tuple[Note, ...]:
    """The budget, what is spent and held back, and for what; and which budget would do. ``needed``: to start again."""
    numbers: list[tuple[str, Number]] = [
        ("budget", job.spec.budget),
        ("spent", job.spent),
        ("left", budget.left(job, params)),
        ("reserve", needed),
        ("enough_budget", None if needed is None else _enough(job, needed, params)),
    ]
    held = tuple((f"held_for_{purpose}", amount) for purpose, amount in budget.held_by_purpose(job, params).items())
    return Note("budget", tuple(numbers)), Note("held_back", held)


def awaits_bill(job: Job, market: Market, now: datetime, params: Params) -> Note | None:
    """Why a job without money is not parked yet: its machine was found stopped, and its bill may give enough back.

    The machine costs its disk meanwhile. None if even the whole doubt would not do, if no bill comes, and when
    the bill has had its time.
    """
    main = job.main
    doubt = None if main is None else unobserved_run(main)
    if main is None or doubt is None or any(lease.is_wanted for lease in job.leases if lease.id != main.id):
        return None
    view = market.providers.get(main.provider)
    if view is None or not view.capabilities.has_bills or now - doubt.found_at >= BILL_TAKES:
        return None
    room = market.allowance
    there = market.room_of(job, main)
    of_market = None if there is None else there.left
    bounds = (budget.left(job, params), room.day, room.month, room.purse, of_market)
    lefts = [left for left in bounds if left is not None]
    disk = worst_case(main.storage_rate, BILL_TAKES)
    if min(lefts, default=ZERO) + doubt.cost <= disk:
        return None
    until = (doubt.found_at + BILL_TAKES).isoformat()
    return Note("bill_awaited", (("provider", main.provider), ("doubt", doubt.cost), ("until", until)))


def end_unpaid(job: Job, notes: tuple[Note, ...]) -> SetStatus:
    """Parks it, or ends it where its owner said so; the event tells what ``notes`` say."""
    status = JobStatus.CANCELLING if job.spec.cancel_when_exhausted else JobStatus.PARKED
    return SetStatus(status, Reason.BUDGET_EXHAUSTED, tuple(pair for note in notes for pair in note.numbers))


def waits_for_money(job: Job) -> bool:
    """It is parked, and goes on by itself once there is some."""
    return job.status is JobStatus.PARKED and job.reason in (*LIMIT_REASONS, Reason.BUDGET_EXHAUSTED)


def goes_on(job: Job, market: Market, now: datetime, params: Params) -> Note | None:
    """Why a job that was parked for money goes on by itself; None for one that does not.

    On a new day or in a new month, where the account's limit for the old one parked it. And where a bill gave money
    back, or a limit or the job's budget was raised, since it was parked (``market.made_room``), and what is left holds
    the whole reserve of a new machine: after each parking that takes another correction or raise, so it does not park
    and go on in turns.
    """
    if job.status is not JobStatus.PARKED or job.parked_at is None or market.allowance.exhausted is not None:
        return None
    if job.reason in LIMIT_REASONS and _is_new_period(job.reason, job.parked_at, now):
        return Note("new_period", (("parked_for", job.reason),))
    if not market.made_room or not waits_for_money(job):
        return None
    needed, left = next_reserve(job, market, now, params), budget.left(job, params)
    lefts = (left, market.allowance.day, market.allowance.month, market.allowance.purse)
    room = [each for each in lefts if each is not None]
    if needed is None or any(each < needed for each in room):
        return None
    return Note(
        "room", (("parked_for", job.reason), ("reserve", needed), ("left", left), *limit_numbers(market.allowance))
    )


def limit_numbers(room: Allowance) -> tuple[tuple[str, Number], ...]:
    """What the limits over several jobs leave, in dollars."""
    purse = () if room.purse is None else ((_PURSES[room.purse_reason], room.purse),)
    return ("day_left", room.day), ("month_left", room.month), *purse


def _is_new_period(reason: Reason, parked_at: datetime, now: datetime) -> bool:
    if reason is Reason.OVER_DAY_LIMIT:
        return now.date() > parked_at.date()
    return (now.year, now.month) > (parked_at.year, parked_at.month)


def _enough(job: Job, needed: Decimal, params: Params) -> Decimal:
    """The budget, in whole cents, with which it goes on once its machine is gone."""
    held = budget.held_by_purpose(job, params)
    most = job.spent + held.get("bill", Decimal(0)) + held.get("traffic", Decimal(0)) + needed
    return -(-most // CENT) * CENT
