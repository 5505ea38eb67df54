"""What each answer of the daemon looks like on a terminal: answers in, rich renderables out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from autopilot.answers.jobs import (
    Bid,
    Checkpoint,
    Decision,
    Event,
    Job,
    JobLife,
    Lease,
    LogChunk,
    NewestCheckpoint,
    Note,
    PaidLease,
    Predecessor,
    TakenCode,
)
from autopilot.answers.money import Counted, JobSpend
from autopilot.answers.plans import Forecast, RankedOffer
from autopilot.cli.output import facts, table
from autopilot.cli.plan_views import options_weighed
from autopilot.domain.cost_columns import COST_NAMES
from autopilot.domain.money import ZERO
from autopilot.domain.time import show_duration
from autopilot.words import arrays, failures, readings, reasons, receipts, starts, story, text
from autopilot.words.options import OPTION

if TYPE_CHECKING:
    from rich.console import RenderableType

EVENTS_SHOWN = 30
"""On a terminal; --json has them all."""

LINE_LENGTH = 500
"""Characters of a line of a failed job's output."""

RUN_OR_DONE = ("running", "succeeded", "cancelled")
"""Statuses that need no reason beside them."""

ID_LENGTH = 10
"""An id begins with the time of its making, to the millisecond, in ten characters."""


def job_list(jobs: Sequence[Job], now: datetime, *, all: bool = False) -> RenderableType:
    """A row for each; below it their sum, and why nothing runs for those that wait.

    ``all``: finished ones were asked for, too.
    """
    if not jobs:
        return "no jobs" if all else "no open jobs (autopilot ps -a shows finished ones)"
    from rich.console import Group
    from rich.text import Text

    columns = ("JOB", "NAME", "STATUS", "GPU", "BID", *text.MONEY, "DONE", "TIME LEFT")
    length = _distinct_length([job.id for job in jobs])
    rows = [_job_row(job, length, now) for job in jobs]
    waits = [f"{text.plain(job.name)}: {why}" for job in jobs if (why := _hold(job) or _why(job, now))]
    drop = ("ACCRUED", "JOB", "RESERVED", "GPU", "BID", "DONE")
    listed = table(columns, rows, right=columns[4:9], whole=columns[:1], drop=drop)
    return Group(listed, *map(Text, [_sum_jobs(jobs), *waits]))


def _sum_jobs(jobs: Sequence[Job]) -> str:
    """``total of 3 jobs: $2.50 spent, $0.11 reserved; 31% of $8.00 in the budgets of 2``.

    The cost of a task is in its array's, if that is listed, too. Only jobs with a budget count in the share.
    """
    listed = {job.id for job in jobs}
    counted = [job for job in jobs if job.array not in listed]
    limited = [job for job in counted if job.budget is not None]
    about = "~" if any(job.is_estimate for job in counted) else ""
    held = sum((job.held for job in counted), ZERO)
    count = f"{len(counted):,} job{'s' * (len(counted) != 1)}"
    total = f"total of {count}: {about}{text.money(_spent_by(counted))} spent"
    if held:
        total += f", {text.money(held)} reserved"
    budgets = sum((job.budget for job in limited if job.budget is not None), ZERO)
    if not budgets:
        return total
    share = text.percent(_spent_by(limited) / budgets)
    whose = "their budgets" if len(limited) == len(counted) else f"the budgets of {len(limited)}"
    return f"{total}; {share} of {text.money(budgets)} in {whose if len(counted) > 1 else 'its budget'}"


def _spent_by(jobs: Sequence[Job]) -> Decimal:
    return sum((job.posted + job.accrued for job in jobs), ZERO)


def _why(job: Job, now: datetime) -> str:
    stall = reasons.tell_stall(job, now)
    return f"running: {stall}" if stall else reasons.brief(job)


def _distinct_length(ids: list[str]) -> int:
    """How much of each id tells them all apart; commands accept such a beginning."""
    longest = max(map(len, ids), default=0)
    return next((n for n in range(ID_LENGTH, longest) if len({one[:n] for one in ids}) == len(ids)), longest)


def _job_row(job: Job, id_length: int, now: datetime) -> tuple[str, ...]:
    main = job.main
    return (
        text.plain(job.id[:id_length]),
        text.plain(job.name),
        _status(job),
        _gpu_cell(main) if main else text.NONE,
        text.per_hour(main.bid) if main else text.NONE,
        ("~" if job.is_estimate else "") + text.money(job.posted),
        text.money(job.accrued),
        text.money(job.held),
        text.percent(job.progress),
        _time_left(job, now),
    )


def _gpu_cell(main: Lease) -> str:
    """``1×RTX 4090 97%``, for as long as its agent is at work."""
    busy = readings.busy(main.readings) if main.agent_state == "running" else None
    return text.gpu(main.num_gpus, main.gpu) + (f" {text.percent(busy)}" if busy is not None else "")


def _status(job: Job) -> str:
    """The status, with the reason if it does not run or is stalled; for an array the states of its tasks."""
    if job.tasks and job.status == "running":
        return arrays.brief(job.tasks)
    status, reason = text.plain(job.status), job.reason
    is_plain = not reason or (status in RUN_OR_DONE and reason != "stalled")
    return status if is_plain else f"{status}: {text.words(reason)}"


def _time_left(job: Job, now: datetime) -> str:
    """``4 h on track``; negative once the deadline has passed."""
    if job.deadline is None:
        return text.NONE
    return f"{show_duration(job.deadline - now)} {text.verdict(job.verdict)}".rstrip(" -")


def job_detail(life: JobLife, now: datetime, *, with_fields: bool = False) -> list[RenderableType]:
    """``with_fields``: events as names and fields, not as sentences."""
    job, spend = life.job, life.spend
    parts: list[RenderableType] = [
        facts(
            [
                ("job", f"{text.plain(job.name)} ({text.plain(job.id)})"),
                ("status", f"{text.plain(job.status)}: {reasons.tell_stall(job, now) or text.words(job.reason)}"),
                *(arrays.tell(job.tasks) if job.tasks else []),
                *[("waits", line) for line in reasons.tell_wait(job)],
                *([("start", starts.tell(job.failed_start))] if job.failed_start and job.status != "failed" else []),
                *([("machine", _hold(job))] if job.held_until else []),
                *([("schedule", _firing(job))] if job.due_at else []),
                *[("after", _predecessor(each)) for each in job.after],
                ("submitted", text.when(job.submitted_at, now)),
                *([("finished", text.when(job.finished_at, now))] if job.finished_at else []),
                *([("exit code", str(job.exit_code))] if job.exit_code is not None else []),
                *([("code", _code(job.code))] if job.code else []),
                *[("machine", told) for told in [readings.tell(job.main, now)] if told],
                *([] if job.tasks else [("work done", _work(job))]),
                ("deadline", _deadline_detail(job, now)),
                *_foretell(life.forecast, now),
                *([] if job.tasks else _runs(job, now)),
                *_money_lines(job, spend, is_estimate=job.is_estimate),
                ("budget", text.money(job.budget) if job.budget is not None else "none"),
                *_savings(spend),
                *([("receipt", receipts.tell(life.receipt))] if life.receipt else []),
            ]
        )
    ]
    if life.leases:
        parts += ["\nLeases", lease_list(life.leases, now)]
    if life.bids:
        parts += ["\nBids", generic(life.bids)]
    if life.checkpoints:
        parts += ["\nCheckpoints", generic(life.checkpoints)]
    if life.events:
        parts += ["\nEvents", event_list(life.events, with_fields=with_fields)]
    return parts


def _runs(job: Job, now: datetime) -> list[tuple[str, str]]:
    runs = f"epoch {job.run_epoch}, {job.failures} failed"
    return [("checkpoint", _checkpoint(job.checkpoint, now)), ("runs", runs)]


def _hold(job: Job) -> str:
    """Until when the machine of a job that has failed stays, and what that costs; empty if none does."""
    until, main = job.held_until, job.main
    if not until or not main:
        return ""
    rate = main.bid + main.storage_rate
    back = f"autopilot release {text.plain(job.name)} releases it"
    return f"kept until {text.minute(until)}, {text.per_hour(rate)}; {back}"


def _code(code: TakenCode) -> str:
    changed = " with changes" if code.is_dirty else ""
    commit = f", commit {text.plain(code.commit)[:12]}{changed}" if code.commit else ""
    return f"{text.plain(code.sha256)}, {code.files:,} files, {text.size(code.size_bytes)}{commit}"


def _work(job: Job) -> str:
    done = f"{text.span(job.work_done_s)} of {text.span(job.estimate_s)}"
    claimed = f", {text.percent(job.progress)}" if job.progress is not None else ""
    return f"{done}{claimed}, step {job.step}"


def _firing(job: Job) -> str:
    return f"{text.plain(job.schedule)}, due {text.minute(job.due_at)} UTC"


def _predecessor(after: Predecessor) -> str:
    name = text.plain(after.name or after.job)
    status = f", {text.words(after.status)}" if after.status else ""
    return f"{name} ({text.plain(after.job)}): {text.plain(after.on)}{status}"


def _deadline_detail(job: Job, now: datetime) -> str:
    if job.due_within_s is not None:
        return f"{text.span(job.due_within_s)} after the jobs it waits for end"
    if not job.deadline:
        return "none"
    slack = f", slack {text.span(job.slack_s)}" if job.slack_s is not None else ""
    verdict = f", {text.verdict(job.verdict)}" if job.verdict else ""
    return text.when(job.deadline, now) + verdict + slack


def _foretell(known: Forecast | None, now: datetime) -> list[tuple[str, str]]:
    """What the whole job will have cost, and when it will be done; nothing if nothing could be said."""
    if known is None:
        return []
    low, usual, high = (text.money(known.spent + more) for more in (known.p10, known.p50, known.p90))
    said = [f"{usual} in total, {low} to {high} in 8 of 10 markets"]
    if known.done_p50 is not None:
        usual_end, latest = text.when(known.done_p50, now), text.when(known.done_p90, now)
        said.append(f"done {usual_end}, by {latest} in 9 of 10")
    if known.on_time is not None:
        said.append(f"{text.percent(known.on_time)} on time")
    return [("forecast", f"{'; '.join(said)} (as of {text.when(known.at, now)})")]


def _checkpoint(checkpoint: NewestCheckpoint | None, now: datetime) -> str:
    if checkpoint is None:
        return "none yet"
    doubt = ", suspect: it may be torn, and there is no other" if checkpoint.state == "suspect" else ""
    at = text.when(checkpoint.verified_at, now)
    return f"number {checkpoint.number} at step {checkpoint.step}, {at}{doubt}"


def _money_lines(job: Counted, spend: JobSpend, *, is_estimate: bool) -> list[tuple[str, str]]:
    """Posted, by kind; accrued; reserved. The amounts add up as shown."""
    amounts = text.Amounts([vars(job) | spend.by_column], ("accrued", "held", *COST_NAMES))
    *parts, (posted, _) = amounts.sum_columns(COST_NAMES)
    accrued, held = (amounts.sum_columns([name])[0][0] for name in ("accrued", "held"))
    listed = ", ".join(f"{name} {cells[0]}" for name, cells in zip(COST_NAMES, parts, strict=True))
    shared = ", an estimate: other tasks used its machines, too, and a bill is awaited" if is_estimate else ""
    return [("posted", f"{posted}{shared} ({listed})"), ("accrued", accrued), ("reserved", held)]


def _savings(spend: JobSpend) -> list[tuple[str, str]]:
    equivalent = spend.on_demand_equivalent
    return [("on demand", f"the same hours: {text.money(equivalent, 4)}")] if equivalent is not None else []


def lease_list(leases: Sequence[PaidLease], now: datetime) -> RenderableType:
    columns = ("SLOT", "STATE", "MARKET", "GPU", "TYPE", "BID", *text.MONEY, "AGE")
    names = ("posted", "accrued", "held")
    amounts = text.Amounts(leases, names)
    rows = [
        (
            text.plain(lease.slot),
            _state(lease),
            f"{text.plain(lease.provider)} {text.plain(lease.instance_id)}",
            text.gpu(lease.num_gpus, lease.gpu),
            text.words(lease.capacity_type),
            text.per_hour(lease.bid),
        )
        for lease in leases
    ]
    rows.append(("total", "", "", "", "", ""))
    money = zip(*(amounts.sum_columns([name])[0] for name in names), strict=True)
    ages = [*(text.age(lease.intended_at, now) for lease in leases), ""]
    made = [(*row, *cells, age) for row, cells, age in zip(rows, money, ages, strict=True)]
    drop = ("TYPE", "ACCRUED", "AGE", "RESERVED", "SLOT", "BID", "GPU")
    return table(columns, made, right=columns[5:], drop=drop)


def _state(lease: Lease) -> str:
    """With why it was paused; of a machine whose agent is not at the work itself, what it does."""
    if lease.state == "active" and lease.agent_state != "running":
        return text.words(lease.agent_state or "loading")
    cause = lease.pause_cause
    return text.plain(lease.state) + (f" ({text.words(cause)})" if cause else "")


def failure(job: Job) -> list[RenderableType]:
    """Why a job has failed, and how to resume it; empty for any other job."""
    told = failures.tell(job)
    return [facts(told)] if told else []


def last_output(chunks: Sequence[LogChunk]) -> list[RenderableType]:
    """The end of what the job has printed, without colours and terminal control."""
    from rich.text import Text

    output = text.colourless("".join(chunk.text for chunk in chunks)).rstrip().split("\n")
    # Of an overwritten line, such as a progress bar's, only the final text.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in output[-failures.LINES_SHOWN :]]
    if lines == [""]:
        return ["\nIt printed nothing.\n"]
    shown = [line if len(line) <= LINE_LENGTH else f"{line[:LINE_LENGTH]} …" for line in lines]
    return ["\nLast output (more: autopilot logs)", *(Text(line, overflow="fold") for line in shown), ""]


def event_list(events: Sequence[Event], *, with_fields: bool = False) -> RenderableType:
    """The newest. ``with_fields``: each as it was recorded; else the story that they make."""
    rows: Sequence[tuple[datetime, *tuple[str, ...]]]
    rows = _list_fields(events) if with_fields else [(line.at, str(line)) for line in story.tell_all(events)]
    earlier = f" (the last {EVENTS_SHOWN} of {len(rows)})" if len(rows) > EVENTS_SHOWN else ""
    columns = ("AT (UTC)", "EVENT", f"FIELDS{earlier}") if with_fields else ("AT (UTC)", f"WHAT{earlier}")
    return table(columns, [(text.clock_time(at), *told) for at, *told in rows[-EVENTS_SHOWN:]])


def _list_fields(events: Sequence[Event]) -> list[tuple[datetime, str, str]]:
    return [(each.at, text.plain(each.name), text.fields(each.fields)) for each in events]


def job_status(job: Job) -> list[RenderableType]:
    """The job's current state, and what it waits for."""
    from rich.text import Text

    waiting = job.waiting
    as_of = f" (at {text.clock_time(waiting.at)} UTC)" if waiting else ""
    status = Text(f"now {text.plain(job.status)}: {text.words(job.reason)}{as_of}", style="bold")
    lines = [Text(f"  {line}") for line in reasons.tell_wait(job)]
    if job.failed_start:
        lines.append(Text(f"  newest start: {starts.tell(job.failed_start)}"))
    return [status, *lines, *_began_from(job), *_tabulate_options(waiting.notes if waiting else [])]


def _began_from(job: Job) -> list[RenderableType]:
    """Which checkpoint was restored, or will be; nothing once the present run has made one itself."""
    from rich.text import Text

    checkpoint = job.checkpoint
    if not checkpoint or not job.main or checkpoint.run_epoch >= job.run_epoch:
        return []
    doubt = ", which is suspect: there is no other" if checkpoint.state == "suspect" else ""
    begun_from = f"checkpoint {checkpoint.number} of run {checkpoint.run_epoch}"
    return [Text(f"  run {job.run_epoch} resumes from {begun_from}{doubt}")]


def decision_lines(decisions: Sequence[Decision]) -> list[RenderableType]:
    from rich.text import Text

    lines: list[RenderableType] = []
    for decision in decisions:
        lines.append(Text(f"{text.clock_time(decision.at)} UTC  {text.plain(decision.id)}", style="bold"))
        lines += [Text(f"  {label:<8}{told}") for label, told in reasons.list_reasons(decision)]
        lines += _tabulate_options(decision.notes)
    return lines


def _tabulate_options(notes: Sequence[Note]) -> list[RenderableType]:
    weighed = [note for note in notes if note.topic == OPTION]
    return [options_weighed(weighed)] if weighed else []


def offer_list(offers: Sequence[RankedOffer]) -> RenderableType:
    columns = ("MARKET", "MACHINE", "GPU", "FLOOR", "ON DEMAND", "$/WORK H", "RELIABLE", "WHERE, OR WHY NOT")
    rows = [
        (
            text.plain(offer.provider),
            text.plain(offer.machine_id),
            text.gpu(offer.num_gpus, offer.gpu),
            text.per_hour(offer.floor),
            text.per_hour(offer.on_demand_price),
            text.money(offer.cost_per_work_h, 3),
            text.percent(offer.reliability),
            text.plain(offer.location) if offer.eligible else f"no: {text.words(offer.why_not)}",
        )
        for offer in offers
    ]
    right = ("FLOOR", "ON DEMAND", "$/WORK H", "RELIABLE")
    return table(columns, rows, right=right, drop=("RELIABLE", "ON DEMAND", "MACHINE", "GPU"))


def check_list(checks: list[dict[str, Any]]) -> RenderableType:
    signs = {True: "ok", False: "FAIL", None: "skipped"}
    rows = [
        (
            signs[check["ok"]],
            text.plain(check["name"]),
            text.plain(check["detail"]),
            "" if check["ok"] else check["hint"],
        )
        for check in checks
    ]
    return table(("", "CHECK", "FOUND", "TO DO"), rows)


def generic(rows: Sequence[Bid] | Sequence[Checkpoint]) -> RenderableType:
    """Columns in their order without ids, which only --json needs."""
    names = [each.name for each in fields(rows[0]) if not each.name.endswith("_id")]
    return table([name.upper() for name in names], [[_cell(getattr(row, name)) for name in names] for row in rows])


def _cell(value: object) -> str:
    return text.clock_time(value) if isinstance(value, datetime) else text.plain(value)
