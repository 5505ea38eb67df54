"""*Job*: the state of one job and its history on one time axis."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.jobs import Decision, Job, Tasks
from autopilot.answers.money import JobSpend
from autopilot.answers.pages import DrawnLife, TaskOfPage
from autopilot.answers.prices import Prices
from autopilot.domain.errors import UserError
from autopilot.web import curves, svg, words
from autopilot.web.hero import Hero, Panel, draw_hero
from autopilot.web.machines import MachineLife, Share, read_machines, split_paid
from autopilot.web.shapes import (
    DeadlineWords,
    Figure,
    StatusWord,
    budget_meter,
    deadline_of,
    read_lines,
    spent_of,
    status_of,
    tell_limit,
)
from autopilot.web.source import PageSource
from autopilot.web.svg import Axis
from autopilot.words import failures, readings, reasons, receipts, story, text
from autopilot.words.options import OPTION, tell_option

PERIODS: Mapping[str, timedelta | None] = {"all": None, "6h": timedelta(hours=6), "2h": timedelta(hours=2)}
STEPS = 200
"""Steps of the prices in the picture."""
EVENTS_SHOWN = 200
LONGEST_PRICES = timedelta(days=60)
"""Prices of a longer life are drawn from its last days."""


class DecisionView(NamedTuple):
    at: str
    sentence: str
    options: list[tuple[str, ...]]
    """Option, expected cost, bid, where, and whether it was chosen or why not."""
    lines: list[tuple[str, str]]
    number: int
    """From the first, which is 1."""
    earlier: str | None
    later: str | None


class TaskLine(NamedTuple):
    number: int
    id: str
    status: StatusWord
    why: str
    cost: str


class MachineLine(NamedTuple):
    machine: MachineLife
    since: str
    ran: str
    cost: str
    ended: str


@dataclass(frozen=True)
class JobPage:
    now: datetime
    newest_at: datetime | None
    job: Job
    status: StatusWord
    why: list[str]
    figures: list[Figure]
    deadline: DeadlineWords | None
    hero: Hero
    period: str
    spent: Panel
    spent_ruler: Markup
    forecast: str
    paid: Markup
    shares: list[Share]
    decision: DecisionView | None
    decisions: int
    events: list[tuple[str, str]]
    events_left_out: int
    machines: list[MachineLine]
    total: str
    """What the machines have cost together."""
    tasks: list[TaskLine]
    """For an array, its first tasks that have begun."""
    failure: list[tuple[str, str]]
    """For a failed job, what to know first; empty for any other."""
    log: list[str]
    """The end of its output. Of a job that has not failed it is read beside the page."""


async def build(source: PageSource, reference: str, query: Mapping[str, str]) -> JobPage:
    """Raises ``UserError`` for a job or a decision that there is not."""
    life, now = await source.read_job(reference), source.now
    job = life.job
    period = query.get("period", "all")
    if period not in PERIODS:
        raise UserError(f"no period {period!r}", hint=f"one of: {', '.join(PERIODS)}")
    axis = axis_of(job, now, PERIODS[period])
    machines = read_machines(life.leases, life.spans, life.events, now)
    decision = _choose(life.decisions, query.get("d"))
    prices = await read_prices(source, life, axis)
    spent, spent_ruler = curves.draw_budget(life, now)
    paid, shares = split_paid(machines)
    lines = story.tell_all(life.events)
    rows, total = _list_machines(life, machines)
    return JobPage(
        now,
        source.newest_at,
        job,
        status_of(job),
        [*_tell_why(job, now), *([receipts.tell(life.receipt)] if life.receipt else [])],
        _list_figures(job, life.spend, now),
        deadline_of(job, now),
        draw_hero(life, machines, drop_doubles(prices), axis, decision.id if decision else None),
        period,
        spent,
        spent_ruler,
        curves.tell_forecast(life.forecast, now),
        paid,
        shares,
        _show_decision(decision, life.decisions) if decision else None,
        len(life.decisions),
        [(words.moment(line.at), str(line)) for line in reversed(lines[-EVENTS_SHOWN:])],
        max(len(lines) - EVENTS_SHOWN, 0),
        rows,
        total,
        [_tell_task(task) for task in life.tasks],
        failures.tell(job),
        await _read_log(source, job) if job.status == "failed" and not job.tasks else [],
    )


async def _read_log(source: PageSource, job: Job) -> list[str]:
    try:
        return read_lines(await source.read_log(job.id))
    except UserError as problem:
        return [f"The output cannot be read: {problem.message}"]


async def read_prices(source: PageSource, life: DrawnLife, axis: Axis) -> list[Prices]:
    """Prices of the GPUs that the job may use or has used."""
    found: list[Prices] = []
    for gpu, since in list_prices(life, axis):
        with contextlib.suppress(UserError):  # never listed
            found.append(await source.prices(gpu, since, axis.end, STEPS))
    return found


def list_prices(life: DrawnLife, axis: Axis) -> list[tuple[str, datetime]]:
    """The GPUs whose prices are drawn, and since when."""
    since = max(axis.start, axis.end - LONGEST_PRICES)
    gpus = dict.fromkeys([*life.gpus, *(lease.gpu for lease in life.leases)])
    return [(gpu, since) for gpu in gpus if gpu.strip()]


def axis_of(job: Job, now: datetime, length: timedelta | None) -> Axis:
    end, begun = job.finished_at or now, job.submitted_at
    start = begun - (end - begun) * 0.02 - timedelta(minutes=1) if length is None else end - length
    return Axis(start, end + (end - start) * 0.02)


def drop_doubles(prices: Sequence[Prices]) -> list[Prices]:
    """Names of GPUs may overlap; each market and model is drawn once."""
    seen: set[tuple[str, str]] = set()
    made: list[Prices] = []
    for answer in prices:
        fresh = [each for each in answer.markets if (each.provider, each.gpu) not in seen]
        seen |= {(each.provider, each.gpu) for each in fresh}
        made.append(replace(answer, markets=fresh))
    return made


def _tell_why(job: Job, now: datetime) -> list[str]:
    main = job.main
    told = [reasons.tell_stall(job, now) or words.words(job.reason)]
    if job.reason == "waiting_for_jobs":
        told += reasons.tell_wait(job)
    if job.due_at:
        told.append(f"a firing of schedule {words.plain(job.schedule)}, due {words.moment_in_zone(job.due_at)}")
    if main:
        how = f"{words.capacity(main.capacity_type)} at {words.per_hour(main.bid)}"
        told.append(f"{main.num_gpus} × {words.plain(main.gpu)}, {words.market(main.provider)} {how}")
    return told


def _tell_task(task: TaskOfPage) -> TaskLine:
    reason = "" if task.status in ("succeeded", "running") else words.words(task.reason)
    cost = ("~" if task.is_estimate else "") + words.money(task.posted)
    return TaskLine(task.task, task.id, status_of(task), reason, cost)


def _list_array_figures(job: Job, tasks: Tasks, now: datetime) -> list[Figure]:
    due = deadline_of(job, now)
    at_work, over = tasks.running + tasks.waiting, tasks.failed + tasks.cancelled
    done = curves.draw_meter([("work", Decimal(tasks.succeeded))], Decimal(tasks.count), "tasks done")
    needed = f"of {tasks.count:,}, {tasks.needed:,} must succeed"
    return [
        Figure("Tasks done", f"{tasks.succeeded:,}", needed, done),
        Figure("Running", f"{at_work:,}", f"{tasks.parallel:,} at the most, {tasks.unbegun:,} not started"),
        Figure("Failed or cancelled", f"{over:,}", f"{tasks.failed:,} failed", tone="bad" if tasks.failed else ""),
        _figure_of_spend(job),
        Figure("Deadline", "none", "no deadline") if due is None else Figure("Deadline", "", due.due),
    ]


def _figure_of_spend(job: Job) -> Figure:
    meter = budget_meter(job, job.budget)
    return Figure("Spent", words.money(spent_of(job)), tell_limit(job, job.budget, "budget"), meter)


def _list_figures(job: Job, spend: JobSpend, now: datetime) -> list[Figure]:
    if job.tasks:
        return _list_array_figures(job, job.tasks, now)
    work, estimate = words.duration(job.work_done_s), job.estimate_s
    # The share is the command's own count, and may disagree with the time that it was said to take.
    done = f"{work} of work, {'no estimate' if estimate is None else f'{words.duration(estimate)} estimated'}"
    meter = svg.NOTHING
    if job.progress is not None:
        meter = curves.draw_meter([("work", job.progress)], Decimal(1), f"{words.percent(job.progress)} done")
    elif job.main is not None and job.main.readings is not None and job.main.readings.recognised is not None:
        done += f"; {readings.tell_recognised(job.main.readings.recognised)}"
    due, saved = deadline_of(job, now), job.checkpoint
    on_demand, spent = spend.on_demand_equivalent, spent_of(job)
    below = ""
    if on_demand is not None and spent < on_demand:
        below = f"; {words.percent(1 - spent / on_demand)} saved"
    return [
        Figure("Done", words.percent(job.progress), done, meter),
        _figure_of_spend(job),
        Figure("Deadline", due.word, due.due, tone=due.tone) if due else Figure("Deadline", "none", "no deadline"),
        Figure(
            "Checkpoint",
            words.duration(now - saved.verified_at),
            f"ago, verified, at step {saved.step:,}",
        )
        if saved
        else Figure("Checkpoint", "none", "a preemption now loses all work"),
        Figure(
            "On demand",
            words.money(on_demand),
            "no on-demand price is known" if on_demand is None else f"for the same hours{below}",
        ),
    ]


def _choose(decisions: Sequence[Decision], chosen: str | None) -> Decision | None:
    if chosen is None:
        return decisions[0] if decisions else None
    found = next((each for each in decisions if each.id == chosen), None)
    if found is None:
        raise UserError(f"no decision {chosen!r} among the newest of this job", hint="autopilot why JOB lists them")
    return found


def _show_decision(decision: Decision, decisions: Sequence[Decision]) -> DecisionView:
    place = decisions.index(decision)
    return DecisionView(
        words.moment(decision.at),
        words.tell_decision(decision),
        [tell_option(note.numbers) for note in decision.notes if note.topic == OPTION],
        list(reasons.list_reasons(decision, words.moment)),
        len(decisions) - place,
        decisions[place + 1].id if place + 1 < len(decisions) else None,
        decisions[place - 1].id if place else None,
    )


def _list_machines(life: DrawnLife, machines: Sequence[MachineLife]) -> tuple[list[MachineLine], str]:
    """Newest first, with what they have cost; the costs add up to their total as they are shown."""
    newest = list(reversed(machines))
    paid = {lease.id: lease for lease in life.leases}
    costs = text.Amounts([paid[each.lease.id] for each in newest], ("posted", "accrued"), least=2).sum_columns(
        ["posted", "accrued"]
    )[-1]
    return [
        MachineLine(
            each,
            words.moment(each.bars[0].start),
            words.duration(sum((bar.end - bar.start for bar in each.bars if bar.state != "loading"), timedelta(0))),
            cost,
            words.words(each.lease.reason) if each.lease.gone_at else f"it is {words.words(each.lease.status)}",
        )
        for each, cost in zip(newest, costs[:-1], strict=True)
    ], costs[-1]
