"""What more than one page shows: a figure with its meaning, a state with its colour and word."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from autopilot.answers.jobs import Job, Logs
from autopilot.answers.money import Against, Counted, Spend, SpendRow
from autopilot.answers.pages import TaskOfPage
from autopilot.domain.money import ZERO
from autopilot.web import curves, svg, words
from autopilot.words import text

LOG_LINES, LINE_LENGTH = 400, 2000
"""Last lines of the output of a job."""

TONES = {
    "running": "good",
    "succeeded": "idle",
    "failed": "bad",
    "parked": "warn",
    "paused": "warn",
    "recovering": "warn",
    "migrating": "move",
    "starting": "move",
}
"""Tone of a job's status; any other is idle."""
VERDICTS = {"fine": "good", "tight": "warn", "will_miss": "bad"}
"""Tone."""


class Figure(NamedTuple):
    """The number first, its meaning in one line under it."""

    title: str
    number: str
    meaning: str
    meter: Markup = svg.NOTHING
    tone: str = ""
    unit: str = ""


class StatusWord(NamedTuple):
    word: str
    tone: str


class DeadlineWords(NamedTuple):
    word: str
    tone: str
    due: str
    """When, and with how much to spare."""


def status_of(job: Job | TaskOfPage) -> StatusWord:
    return StatusWord(words.words(job.status), TONES.get(job.status, "idle"))


def deadline_of(job: Job, now: datetime) -> DeadlineWords | None:
    """None: it has none."""
    if job.deadline is None:
        within = job.due_within_s
        if within is None:
            return None
        return DeadlineWords("not started", "", f"{words.duration(within)} after its predecessors end")
    at = job.deadline
    if job.finished_at is not None:
        return DeadlineWords(_judge_finished(job, at), "", f"it was due {words.moment(at)}")
    unjudged = "for all its tasks" if job.tasks else "not judged"
    word = text.verdict(job.verdict) if job.verdict else unjudged
    tone = VERDICTS.get(job.verdict or "", "")
    due = f"in {words.duration(at - now)}" if at > now else f"was due {words.duration(now - at)} ago"
    slack = job.slack_s
    spare = "" if slack is None else f", {words.duration(abs(slack))} {'short' if slack < 0 else 'to spare'}"
    return DeadlineWords(word, tone, due + spare)


def _judge_finished(job: Job, deadline: datetime) -> str:
    """A job that failed before its deadline has missed none: its status is the word."""
    if job.finished_at is not None and job.finished_at > deadline:
        return "deadline missed"
    return "deadline met" if job.status == "succeeded" else words.words(job.status)


def spent_of(row: Counted | Against | SpendRow) -> Decimal:
    """Dollars: what is posted and what has accrued since. Reserved money is not spent."""
    return row.posted + row.accrued


def budget_meter(row: Counted | Against, limit: Decimal | None) -> Markup:
    """Spent solid, reserved hatched, the limit the full width."""
    spent = spent_of(row)
    over = limit is not None and spent > limit * 9 / 10
    label = "" if limit is None else f"{words.money(spent)} of {words.money(limit)} spent"
    return curves.draw_meter([("used over" if over else "used", spent), ("held", row.held)], limit, label)


def tell_limit(row: Counted | Against, limit: Decimal | None, name: str = "limit") -> str:
    """``of $8.00; $0.10 more is reserved``."""
    of = f"no {name} set" if limit is None else f"of {words.money(limit)}"
    return of if row.held <= ZERO else f"{of}; {words.money(row.held)} more is reserved"


def saved_figure(spend: Spend, title: str = "Saved") -> Figure:
    compared = next((each for each in spend.comparisons if each.name == "on_demand"), None)
    if compared is None:
        return Figure(title, "-", "no on-demand price is known")
    share = compared.saved_share
    below = "" if share is None else f"{words.percent(share)} "
    return Figure(title, words.money(compared.saved), f"{below}below the same hours on demand")


def read_lines(output_of: Logs) -> list[str]:
    """The end of what a job has printed, without colours and terminal control."""
    output = text.colourless("".join(chunk.text for chunk in output_of.chunks)).rstrip().split("\n")
    # Of an overwritten line, such as a progress bar's, only the final text.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in output[-LOG_LINES:]]
    return [] if lines == [""] else [line[:LINE_LENGTH] for line in lines]
