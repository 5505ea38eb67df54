"""*Now*: what needs somebody, what is being spent, the jobs by urgency, the machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.jobs import Job
from autopilot.answers.money import AccountMoney, Spend
from autopilot.answers.pages import MachinesOfJob, TaskAtWork
from autopilot.answers.plans import Forecast
from autopilot.answers.schedules import Schedule
from autopilot.answers.status import Market
from autopilot.domain.money import ZERO
from autopilot.web import curves, svg, words
from autopilot.web.job_list import JobList, ListChoice, choose, urgency
from autopilot.web.machines import MachineLife, draw_strip, read_machines
from autopilot.web.shapes import (
    DeadlineWords,
    Figure,
    StatusWord,
    budget_meter,
    deadline_of,
    saved_figure,
    spent_of,
    status_of,
    tell_limit,
)
from autopilot.web.source import PageSource
from autopilot.web.svg import Axis
from autopilot.words import arrays, reasons

TASKS_DRAWN = 40
"""Tasks of arrays whose machines are drawn and listed beside those: machines of 100 jobs can be asked for at once."""
NO_QUERY: Mapping[str, str] = {}
NO_MACHINES = MachinesOfJob(leases=[], spans={}, events=[])
FINISHED_SHOWN = 100
FAILED_LATELY = timedelta(hours=12)
NAMED_IN_BANNER = 6
SHORTEST, LONGEST = timedelta(hours=3), timedelta(hours=24)
"""Time span of the strips."""
GOES_ON = {
    "over_day_limit": "They resume by themselves at 00:00 UTC.",
    "over_month_limit": "They resume by themselves on the first of the month, at 00:00 UTC.",
    "over_allowance": "They resume when their token's allowance has room again.",
    "over_schedule_budget": "They resume when their schedule's budget over all firings has room again.",
}

_DARK = "Prices and machines there are from the last successful read."


class Need(NamedTuple):
    """Jobs that wait for somebody, for one cause."""

    jobs: Sequence[Job]
    more: int
    """Beside those that are named."""
    what: str
    way_out: str
    tone: str


@dataclass(frozen=True)
class JobRow:
    job: Job
    status: StatusWord
    why: str
    next: str
    """What is expected, and what it waits for or tries next; empty if nothing can be said."""
    strip: Markup
    done: str
    done_meter: Markup
    work: str
    burn: str
    spent: str
    limit: str
    meter: Markup
    deadline: DeadlineWords | None


class FinishedRow(NamedTuple):
    job: Job
    status: StatusWord
    spent: str


class ScheduleRow(NamedTuple):
    schedule: Schedule
    when: str
    next: str
    fired: str
    spent: str


class MachineRow(NamedTuple):
    machine: MachineLife
    job: Job | TaskAtWork
    state: str
    cost: str


class MarketRow(NamedTuple):
    market: str
    is_known: bool
    said: str
    """Whether it can be read, or why not."""
    read: str
    credit: str
    certificate: str
    unwatched: str
    """What keeps billing when unmonitored; empty if nothing does."""


@dataclass(frozen=True)
class NowPage:
    now: datetime
    newest_at: datetime | None
    needs: list[Need]
    figures: list[Figure]
    listed: JobList
    open: list[JobRow]
    """Those of the page of the list."""
    schedules: list[ScheduleRow]
    finished: list[FinishedRow]
    finished_count: int
    machines: list[MachineRow]
    ruler: Markup
    window: str
    markets: list[MarketRow]


def _read_machines(of: MachinesOfJob, now: datetime) -> list[MachineLife]:
    return read_machines(of.leases, of.spans, of.events, now)


async def build(source: PageSource, query: Mapping[str, str] = NO_QUERY) -> NowPage:
    """What a token may not see of the account is left out. Raises ``UserError`` for a wish that makes no sense."""
    asked = ListChoice.read(query)
    body, now = await source.read_now(), source.now
    jobs, markets = body.jobs, body.markets
    still = sorted((job for job in jobs if job.finished_at is None), key=urgency)
    over = sorted((job for job in jobs if job.finished_at), key=lambda job: job.finished_at or now, reverse=True)
    listed, ended = choose(asked, still), [job for job in over if asked.matches(job)]
    begun = min((job.submitted_at for job in still), default=now)
    window = min(max(now - begun + timedelta(minutes=10), SHORTEST), LONGEST)
    axis = Axis(now - window, now)
    figures = _list_figures(body.account, body.month) if body.account and body.month else _list_own_figures(still)
    tasks = body.tasks[:TASKS_DRAWN]
    drawn = await source.read_machines([*(job.id for job in listed.jobs), *(task.id for task in tasks)])
    rows, machines = [], []
    for job in listed.jobs:
        # Of an array the machines are those of its tasks.
        owners: list[Job | TaskAtWork] = [job, *(task for task in tasks if task.array_id == job.id)]
        found = [(each, life) for each in owners for life in _read_machines(drawn.get(each.id, NO_MACHINES), now)]
        strip = draw_strip([life for _, life in found], axis) if found else svg.NOTHING
        rows.append(_job_row(job, body.burns.get(job.id), body.forecasts.get(job.id), strip, now))
        machines += [_machine_row(life, each) for each, life in found if life.lease.gone_at is None]
    return NowPage(
        now,
        source.newest_at,
        [*_list_dark(markets, now), *_list_needs([*still, *over], now)],
        figures,
        listed,
        rows,
        [_schedule_row(each) for each in body.schedules],
        [FinishedRow(job, status_of(job), words.money(spent_of(job))) for job in ended[:FINISHED_SHOWN]],
        len(ended),
        machines,
        svg.ruler(axis),
        words.duration(window - window % timedelta(hours=1)),
        [_market_row(each, now) for each in markets],
    )


def _list_needs(jobs: Sequence[Job], now: datetime) -> list[Need]:
    found: list[tuple[str, str, Job]] = []
    for job in jobs:
        if job.status == "parked":
            found.append(("parked", job.reason, job))
        elif job.status == "failed" and job.finished_at is not None and now - job.finished_at < FAILED_LATELY:
            found.append(("failed", job.reason, job))
        elif job.finished_at is None and job.verdict == "will_miss":
            found.append(("late", "", job))
    found.sort(key=lambda each: each[:2])
    return [
        _need(kind, cause, [job for *_, job in members])
        for (kind, cause), members in groupby(found, key=lambda each: each[:2])
    ]


def _need(kind: str, cause: str, jobs: Sequence[Job]) -> Need:
    is_one, name = len(jobs) == 1, words.plain(jobs[0].name)
    if kind == "parked":
        what = f"{'is' if is_one else 'are'} parked: {words.words(cause)}."
        way_out = GOES_ON.get(cause, f"autopilot resume {name} resumes it.")
        if cause == "budget_exhausted":
            way_out = f"autopilot change {name} budget=AMOUNT raises it and resumes the job."
    elif kind == "failed":
        what = f"{'has' if is_one else 'have'} failed: {words.words(cause)}."
        way_out = f"autopilot logs {name} shows the output."
    else:
        what = "will be late." if is_one else "will be late, each for its own deadline."
        way_out = f"autopilot change {name} deadline=+6h gives it more time."
    return Need(
        jobs[:NAMED_IN_BANNER], len(jobs[NAMED_IN_BANNER:]), what, way_out, "warn" if kind == "parked" else "bad"
    )


def _list_dark(markets: Sequence[Market], now: datetime) -> list[Need]:
    """Markets that cannot be read: the page shows old values for them."""
    dark = [each for each in markets if not each.known]
    return [
        Need(
            [],
            0,
            f"{words.market(each.name)} cannot be read{_since(each, now)}: {words.plain(each.reason)}.",
            _DARK,
            "warn",
        )
        for each in dark
    ]


def _since(market: Market, now: datetime) -> str:
    if market.read_at is None:
        return ", not once since the daemon started"
    at = market.read_at
    return f" since {words.moment_in_zone(at)} ({words.duration(max(now - at, timedelta(0)))})"


def _market_row(market: Market, now: datetime) -> MarketRow:
    lack, at, left = market.certificate.lack, market.read_at, market.certificate.uncertified_left
    bound = "no new rentals" if left is None else f"{words.money(left)} left without a certificate"
    if (until := market.certificate.proved_until) is not None:
        bound += f", proved by use until {until:%Y-%m-%d}"
    return MarketRow(
        words.market(market.name),
        market.known,
        "readable" if market.known else f"not readable: {words.plain(market.reason)}",
        f"{words.duration(max(now - at, timedelta(0)))} ago" if at else "never",
        words.money(market.credit),
        f"{bound}: {words.words(lack)}" if lack else "",
        words.plain(market.unwatched) if market.unwatched else "",
    )


def _list_own_figures(still: Sequence[Job]) -> list[Figure]:
    """For users who see only their own jobs."""
    burn = sum((each.bid for job in still for each in (job.main, job.next) if each), ZERO)
    spent = sum((spent_of(job) for job in still), ZERO)
    held = sum((job.held for job in still), ZERO)
    return [
        Figure("Open jobs", str(len(still)), "of yours"),
        Figure("Bids", words.money(burn, 3), "for their machines, without disks", unit="/h"),
        Figure("Spent", words.money(spent), "by your open jobs"),
        Figure("Reserved", words.money(held), "until their machines have ended"),
    ]


def _list_figures(account: AccountMoney, month: Spend) -> list[Figure]:
    lasts = [
        (period.runway_s, name)
        for period, name in ((account.day, "today's limit"), (account.month, "this month's limit"))
        if period.runway_s is not None
    ]
    first = min(lasts, default=None)
    if not account.burn:
        until = "nothing is being billed"
    else:
        until = f"until {first[1]} is used up" if first else "no limit is reached at this rate"
    hourly = "" if account.max_hourly is None else f", at most {words.per_hour(account.max_hourly)}"
    day, whole = account.day, account.month
    reached = "; at this rate the limit is reached" if account.forecast_reaches_limit else ""
    return [
        Figure(
            "Spend rate",
            words.money(account.burn, 3),
            f"{account.instances} {'machine' if account.instances == 1 else 'machines'}{hourly}",
            unit="/h",
        ),
        Figure("Runway", words.duration(first[0]) if first else "-", until),
        Figure(
            "Today",
            words.money(spent_of(day)),
            tell_limit(day, day.limit),
            budget_meter(day, day.limit),
        ),
        Figure(
            "This month",
            words.money(spent_of(whole)),
            tell_limit(whole, whole.limit) + reached,
            budget_meter(whole, whole.limit),
        ),
        saved_figure(month, "Saved this month"),
    ]


def _job_row(job: Job, burn: Decimal | None, forecast: Forecast | None, strip: Markup, now: datetime) -> JobRow:
    main, tasks, estimate = job.main, job.tasks, job.estimate_s
    budget = job.budget
    estimated = "" if estimate is None else f", {words.duration(estimate)} estimated"
    work = arrays.brief(tasks) if tasks else f"{words.duration(job.work_done_s)} of work{estimated}"
    why = reasons.tell_stall(job, now) or ("" if job.reason == "working" else words.words(job.reason))
    machine = f"{main.num_gpus} × {words.plain(main.gpu)}, {words.market(main.provider)}" if main else ""
    share = job.progress
    if tasks:
        share = Decimal(tasks.succeeded) / tasks.count
    return JobRow(
        job,
        status_of(job),
        why or machine,
        _tell_next(job, forecast),
        strip,
        "" if share is None else words.percent(share),
        svg.NOTHING if share is None else curves.draw_meter([("work", share)], Decimal(1), ""),
        work,
        words.per_hour(burn) if burn else "-",
        words.money(spent_of(job)),
        "no budget is set" if budget is None else f"of {words.money(budget)}",
        budget_meter(job, budget),
        deadline_of(job, now),
    )


def _tell_next(job: Job, forecast: Forecast | None) -> str:
    """``about $3.60 in total; done about 24 Nov 01:44, by 05:30 in 9 of 10``; before it what is waited for or tried."""
    return "; ".join(part for part in (_tell_move(job), reasons.brief(job), _tell_end(forecast)) if part)


def _tell_move(job: Job) -> str:
    to, main = job.next, job.main
    if to is not None:
        how = f"{words.market(to.provider)}, {words.capacity(to.capacity_type)} at {words.per_hour(to.bid)}"
        return f"moves to {to.num_gpus} × {words.plain(to.gpu)}, {how}"
    if main is not None and job.status in ("starting", "recovering"):
        state = words.words(main.agent_state or "loading")
        return f"the machine is {state}; then the command {'resumes' if job.checkpoint else 'starts'}"
    return ""


def _tell_end(forecast: Forecast | None) -> str:
    if forecast is None:
        return ""
    told = f"about {words.money(forecast.spent + forecast.p50)} in total"
    if forecast.done_p50 is not None:
        told += f", done about {words.minute(forecast.done_p50)}"
    return told


def _schedule_row(each: Schedule) -> ScheduleRow:
    coming = words.moment(each.next[0]) if each.next else words.words(each.status)
    left_out = f", {each.left_out} left out" if each.left_out else ""
    over_all = (
        f" of {words.money(each.budget)}{' a month' if each.is_monthly else ''}" if each.budget is not None else ""
    )
    return ScheduleRow(
        each,
        f"{words.plain(each.cron)} {words.plain(each.zone)}",
        coming,
        f"{each.fired} fired{left_out}",
        f"{words.money(each.posted)}{over_all}",
    )


def _machine_row(machine: MachineLife, job: Job | TaskAtWork) -> MachineRow:
    return MachineRow(machine, job, machine.bars[-1].state, words.per_hour(machine.lease.bid))
