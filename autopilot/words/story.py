"""What happened to a job, in sentences. ``show --events`` has the same events as names and fields.

``tell`` has a sentence for one event. ``tell_all`` puts what belongs together into one line: how a machine was rented,
how an outbid was answered, how a machine was given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.answers.jobs import Event
from autopilot.domain.time import show_duration
from autopilot.words import starts, text
from autopilot.words.arrival import tell_findings
from autopilot.words.tunnels import tell_fault

Fields = Mapping[str, Any]
"""As the API answers them."""


def tell(event: Event) -> str:
    """One event as a sentence without its time."""
    name, fields = event.name, event.fields
    sentence = SENTENCES.get(name)
    if sentence is not None:
        return sentence(fields) if callable(sentence) else sentence
    kind, _, status = name.partition(".")
    if name in OVER_WORDS:
        if fields.get("reason") == "dependency_failed":
            return f"{OVER_WORDS[name]}{_tell_dependency(fields)}"
        if fields.get("reason") == "image_unusable":
            return f"{OVER_WORDS[name]}: {starts.tell_event(fields)}"
        return f"{OVER_WORDS[name]}{'' if fields.get('reason') == 'completed' else _because(fields)}"
    if kind == "job":
        numbers = text.numbers({key: value for key, value in fields.items() if key not in ("reason", "from")})
        return f"the job is {text.words(status)}{_because(fields)}{numbers and f' ({numbers})'}"
    return f"{text.words(name)} {text.numbers(fields)}".rstrip()


@dataclass(slots=True)
class Line:
    """One thing that happened, from its first event to the newest that belongs to it."""

    at: datetime
    """When it began."""
    stage: str
    """The name of the event that says what may follow: its first, or a later one that ended a part of it."""
    parts: list[str]
    lost: str = ""
    """The work that it cost; told last."""

    def __str__(self) -> str:
        return "; ".join([*self.parts, self.lost] if self.lost else self.parts)


def tell_all(events: Iterable[Event]) -> list[Line]:
    """What happened to one job, or to one machine, in order; what a line implies has none of its own."""
    lines: list[Line] = []
    newest: dict[object, Line] = {}
    for event in events:
        name, lease = event.name, event.lease_id
        line, phrase = newest.get(lease), CONTINUED.get(name)
        if line is not None and phrase is not None and line.stage in phrase.follows:
            _go_on(line, name, phrase.tell(event.fields, _since(line.at, event.at)))
            line.stage = name if name in RUNS else line.stage
        elif line is not None and name == line.stage == "checkpoint.verified":
            line.parts = [tell(event)]  # of consecutive checkpoints only the newest is shown
        elif name not in IMPLIED:
            newest[lease] = Line(event.at, name, [tell(event)])
            lines.append(newest[lease])
    return lines


def _go_on(line: Line, name: str, phrase: str) -> None:
    if name == "work.lost":
        line.lost = phrase
    elif phrase:
        line.parts.append(phrase)


def _since(began: datetime, at: datetime) -> str:
    return show_duration(at - began)


def _because(fields: Fields, key: str = "reason") -> str:
    return f": {text.words(fields[key])}" if fields.get(key) else ""


def _tell_intended(fields: Fields) -> str:
    how = f"{text.words(fields.get('capacity_type'))} at {text.per_hour(fields.get('bid'))}"
    return f"rents {text.plain(fields.get('gpu'))} on {text.place(fields)}, {how}{_because(fields)}"


def _tell_refused(fields: Fields) -> str:
    return f"the market refused to rent it: {text.plain(fields.get('message') or text.words(fields.get('reason')))}"


def _tell_login(fields: Fields) -> str:
    server, secret = text.plain(fields.get("server")), fields.get("secret")
    who = f"the login with the secret {text.plain(secret)}" if secret else "the pull without a login"
    mend = (
        f"autopilot secret set {text.plain(secret)} --server {server}" if secret else "add [registry] to the job file"
    )
    return f"{server} refused {who}: {text.plain(fields.get('message'))} ({mend}, then resume the job)"


STOPS = {
    "permit": "the machine stopped itself: its permit had run out",
    "console": "its user stopped the machine in the market's console",
    "displaced": "an on-demand customer has the machine",
    "unknown": "the machine stopped, and nothing shows why",
}
"""Causes of a stop that were not an outbid."""


def _tell_paused(fields: Fields) -> str:
    if fields.get("cause") == "outbid":
        bid, to_win = fields.get("bid"), fields.get("price_to_win")
        if bid is not None and to_win is not None and Decimal(to_win) < Decimal(bid):
            return f"displaced at {text.per_hour(bid)}"
        return f"outbid at {text.per_hour(fields.get('bid'))}"
    return STOPS.get(str(fields.get("cause")), f"the market stopped the machine{_because(fields, 'cause')}")


def _tell_bid(fields: Fields) -> str:
    new, old = fields.get("bid"), fields.get("from")
    if new is None or old is None:
        return f"bids {text.per_hour(new)}"
    verb = "raises" if Decimal(new) > Decimal(old) else "lowers"
    return f"{verb} the bid from {text.per_hour(old)} to {text.per_hour(new)}"


def _tell_exit(fields: Fields) -> str:
    blamed = ", attributed to the machine" if fields.get("blamed") else ""
    ended = f"the command ended with exit code {text.plain(fields.get('exit_code'))}{blamed}"
    if fields.get("memory_limit") is None:
        return ended
    peak, limit = text.size(fields.get("memory_peak")), text.size(fields["memory_limit"])
    return f"{ended}: killed for memory, at a peak of {peak} of the {limit} that the machine gives it"


def _tell_ordered(fields: Fields) -> str:
    return f"orders run {text.plain(fields.get('run_epoch'))} on the same machine{_because(fields)}"


def _tell_written_off(fields: Fields) -> str:
    return f"no bill lists a machine for it; {text.money(fields.get('held'))} reserved for it is available again"


def _tell_passed_over(fields: Fields) -> str:
    number = "" if fields.get("number") is None else f".{fields['number']}"
    return f"the store has {text.plain(fields.get('lease'))}{number}, passed over: {text.plain(fields.get('why'))}"


def _tell_check(fields: Fields) -> str:
    found = tell_findings(fields)
    return f"the check on arrival found nothing amiss{found and f', but for this: {found}'}"


def _tell_unfit(fields: Fields) -> str:
    then = "it is left" if fields.get("left") else "others lacked it too, so the job continues here"
    return f"the machine lacks what was rented: {tell_findings(fields)}; {then}"


def _tell_store(fields: Fields) -> str:
    machines = f"machines that the ledger did not know: {text.plain(fields.get('machines'))}"
    if fields.get("number") is None:
        return f"the store has no checkpoint newer than the ledger's; {machines}"
    return f"resumes from checkpoint {fields['number']} at step {fields.get('step')} of the store; {machines}"


def _tell_regained(fields: Fields) -> str:
    since = text.minute(fields.get("intended_at"))
    machine = f"{text.plain(fields.get('gpu'))} on {text.place(fields)}, rented {since} UTC"
    return f"taken back from the store: {machine}, then {text.words(fields.get('state'))}"


def _tell_destroy(fields: Fields) -> str:
    sent = "asked the market to destroy the machine"
    return sent if fields.get("accepted") == "true" else f"{sent}; it did not accept"


def _tell_exec(fields: Fields) -> str:
    who = f"user {text.plain(fields.get('uid'))} ran a command next to the job"
    if fields.get("exit_code") is None:
        return f"{who}; the machine did not answer"
    why = {"timed_out": ", timed out", "stopped": ", because the machine no longer runs the job"}
    return f"{who}; exit code {text.plain(fields['exit_code'])}{why.get(str(fields.get('ended')), '')}"


def _checkpoint_that(verb: str) -> Callable[[Fields], str]:
    def sentence(fields: Fields) -> str:
        size = text.size(fields.get("bytes"))
        by = f" by {text.plain(fields['by'])}" if fields.get("by") else ""
        number, step = text.plain(fields.get("number")), text.plain(fields.get("step"))
        return f"checkpoint {number} {verb}{by}, step {step}{size and ', ' + size}"

    return sentence


def _tell_begin(fields: Fields) -> str:
    due = f"; it is due {text.plain(fields['deadline'])[:16].replace('T', ' ')} UTC" if fields.get("deadline") else ""
    return f"the jobs it waited for have ended: it can start{due}"


def _schedule(fields: Fields) -> str:
    return f"schedule {text.plain(fields.get('name'))}"


def _due(fields: Fields) -> str:
    return f"due {text.minute(fields.get('due'))} UTC"


def _tell_dependency(fields: Fields) -> str:
    job, ended = text.plain(fields.get("job")), text.words(fields.get("ended") or "gone")
    return f": {job}, which it waited for, is {ended}"


def _tell_change(fields: Fields) -> str:
    key = text.plain(fields.get("key"))
    before, after = _show_value(key, fields.get("from")), _show_value(key, fields.get("to"))
    return f"the owner changed the {text.words(key)} from {before} to {after}"


def _show_value(key: str, value: Any) -> str:
    if value is None:
        return "none"
    if key == "due_within":
        return show_duration(timedelta(seconds=float(value)))
    if key == "deadline":
        return text.plain(value)[:16].replace("T", " ")
    return text.money(value) if key == "budget" else text.per_hour(value)


def _tell_stall(fields: Fields) -> str:
    return f"nothing new since {text.minute(fields.get('since'))} UTC: no output, no progress, GPUs idle"


def _tell_loss(fields: Fields) -> str:
    return f"{show_duration(timedelta(seconds=float(fields.get('seconds') or 0)))} of work lost"


OVER_WORDS = {
    "job.succeeded": "the job succeeded",
    "job.failed": "the job failed",
    "job.cancelled": "the job is cancelled",
}

SENTENCES: Mapping[str, str | Callable[[Fields], str]] = {
    "job.submitted": "submitted",
    "job.changed": _tell_change,
    "job.predecessors_ended": _tell_begin,
    "schedule.created": lambda fields: f"{_schedule(fields)} was submitted: {text.plain(fields.get('cron'))}",
    "schedule.fired": lambda fields: (
        f"{_schedule(fields)} created job {text.plain(fields.get('firing'))}, {_due(fields)}"
    ),
    "schedule.skipped": lambda fields: f"{_schedule(fields)} skipped a firing, {_due(fields)}{_because(fields)}",
    "schedule.missed": lambda fields: (
        f"{_schedule(fields)} missed {text.plain(fields.get('firings'))} firings, the newest {_due(fields)}"
    ),
    "schedule.paused": lambda fields: f"{_schedule(fields)} is paused",
    "schedule.resumed": lambda fields: f"{_schedule(fields)} is resumed",
    "schedule.ended": lambda fields: f"{_schedule(fields)} has ended{_because(fields)}",
    "lease.intended": _tell_intended,
    "lease.acquired": lambda fields: f"rented as instance {text.plain(fields.get('instance_id'))}",
    "lease.adopted": lambda fields: f"rented after a lost answer, as instance {text.plain(fields.get('instance_id'))}",
    "lease.refused": _tell_refused,
    "image.login_refused": _tell_login,
    "lease.boot_failed": lambda fields: f"the machine did not come up: {starts.tell_event(fields)}",
    "lease.checked": _tell_check,
    "lease.unfit": _tell_unfit,
    "lease.notice": lambda fields: (
        f"the market gave notice ({text.words(fields.get('kind'))}, at {text.plain(fields.get('ends_at'))})"
    ),
    "lease.notice_withdrawn": "the notice is withdrawn: the machine stays",
    "lease.create_unknown": "the market's answer was lost; the machine list will show whether it was rented",
    "lease.abandoned": lambda fields: f"nothing was rented{_because(fields)}",
    "lease.running": lambda fields: f"the machine runs at {text.per_hour(fields.get('bid'))}",
    "lease.resumed": lambda fields: f"the machine is back at {text.per_hour(fields.get('bid'))}",
    "lease.paused": _tell_paused,
    "lease.offline": "the machine is offline",
    "lease.destroy_ignored": "the machine is still there; it will be destroyed again",
    "lease.gone": lambda fields: f"the machine is gone{_because(fields)}",
    "lease.start_intended": "asks the market to start the machine",
    "lease.start_failed": "the market did not start the machine",
    "lease.release_requested": lambda fields: f"releases the machine{_because(fields)}",
    "lease.instance_found": lambda fields: f"instance {text.plain(fields.get('instance_id'))} was left behind",
    "lease.destroy_sent": _tell_destroy,
    "lease.promoted": lambda fields: f"the machine takes over run {text.plain(fields.get('run_epoch'))}",
    "lease.handed_over": lambda fields: f"the machine continues with task {text.plain(fields.get('task'))}",
    "lease.inherited": "continues on the machine of a finished task",
    "run.excused": "the machine that failed this task failed the next one too: it restarts elsewhere",
    "lease.settled": "the market's bill is complete",
    "lease.written_off": _tell_written_off,
    "bid.intended": _tell_bid,
    "bid.changed": lambda fields: f"the bid is {text.per_hour(fields.get('bid'))}",
    "bid.refused": lambda fields: f"the market refused the bid; it stays {text.per_hour(fields.get('current_bid'))}",
    "run.stop_ordered": lambda fields: f"orders the machine to save and stop{_because(fields)}",
    "run.ordered": _tell_ordered,
    "run.stalled": _tell_stall,
    "tunnel.failed": lambda fields: f"the machine is cut off from here: {tell_fault(fields.get('fault'))}",
    "run.went_on": lambda fields: f"resumes after {text.span(fields.get('still_s'))} without activity",
    "machine.slowed": lambda fields: f"the machine goes at {float(fields.get('pace') or 0):.0%} of the job's own pace",
    "machine.recovered": lambda fields: "the machine goes at the job's own pace again",
    "run.exited": _tell_exit,
    "exec.called": _tell_exec,
    "lease.held": lambda fields: (
        f"the machine is kept until {text.minute(fields.get('until'))} UTC at {text.per_hour(fields.get('per_hour'))}"
    ),
    "agent.reported": lambda fields: f"the agent is {text.words(fields.get('state'))}",
    "checkpoint.verified": _checkpoint_that("is safe"),
    "checkpoint.suspect": _checkpoint_that("is suspect: it may be torn, and is restored only if there is no other"),
    "run.restored": lambda fields: (
        f"checkpoint {text.plain(fields.get('number'))} of run {text.plain(fields.get('of_run'))} was restored"
    ),
    "checkpoint.lost": _checkpoint_that("was damaged in the store"),
    "checkpoint.set_aside": _checkpoint_that("was set aside"),
    "checkpoint.passed_over": _tell_passed_over,
    "store.read": _tell_store,
    "lease.regained": _tell_regained,
    "work.lost": _tell_loss,
    "invoice.drifted": lambda fields: f"the market's bill differs from the ledger: {text.numbers(fields)}",
}
"""For each name in the event log; ``job.<status>`` has one sentence for all."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """How an event continues the line of an earlier one of its lease."""

    follows: frozenset[str]
    """Stages of such lines."""
    tell: Callable[[Fields, str], str]
    """From its fields, and the time since the line began; empty: nothing is to be added."""


def _silent(*_: object) -> str:
    return ""


def _tell_raise(fields: Fields, _: str) -> str:
    new, old = fields.get("bid"), fields.get("from")
    verb = "lowered" if new is not None and old is not None and Decimal(new) < Decimal(old) else "raised"
    return f"{verb} to {text.per_hour(new)}"


def _tell_given_up(fields: Fields, took: str) -> str:
    why = "" if fields.get("reason") in ENDS else _because(fields)
    return f"released{'' if took == '0 s' else f' after {took}'}{why}"


ENDS = ("completed", "moving", "retry", "outbid", "host_lost")
"""Reasons that the beginning of the line has told."""
RENTED = frozenset({"lease.intended"})
STOPPED = frozenset({"lease.paused", "lease.offline"})
REBID = frozenset({"bid.intended"})
ENDED = frozenset({"run.stop_ordered", "run.exited"})
GIVEN_UP = frozenset({"lease.release_requested"})
RUNS = frozenset({"lease.running", "lease.resumed"})
OVER = RENTED | STOPPED | ENDED | GIVEN_UP

CONTINUED: Mapping[str, Phrase] = {
    "lease.acquired": Phrase(RENTED, _silent),
    "lease.adopted": Phrase(RENTED, lambda fields, _: "the machine was found"),
    "lease.create_unknown": Phrase(RENTED, lambda fields, _: "the answer was lost"),
    "lease.refused": Phrase(RENTED, lambda fields, _: _tell_refused(fields)),
    "lease.abandoned": Phrase(RENTED, lambda fields, _: f"nothing was rented{_because(fields)}"),
    "lease.running": Phrase(RENTED, lambda fields, took: f"runs after {took}"),
    "bid.intended": Phrase(STOPPED, _tell_raise),
    "bid.changed": Phrase(STOPPED | REBID, _silent),
    "bid.refused": Phrase(STOPPED | REBID, lambda fields, _: "the market refused that bid"),
    "lease.start_intended": Phrase(STOPPED, lambda fields, _: "start requested"),
    "lease.start_failed": Phrase(STOPPED, lambda fields, _: "the market did not start it"),
    "lease.resumed": Phrase(STOPPED, lambda fields, took: f"back after {took}"),
    "checkpoint.verified": Phrase(ENDED, lambda fields, _: _checkpoint_that("is safe")(fields)),
    "work.lost": Phrase(OVER | RUNS, lambda fields, _: _tell_loss(fields)),
    "lease.release_requested": Phrase(RENTED | STOPPED | ENDED, _tell_given_up),
    "lease.destroy_sent": Phrase(OVER, _silent),
    "lease.gone": Phrase(OVER, lambda fields, _: "gone"),
    "lease.settled": Phrase(OVER, lambda fields, _: "billed"),
    "lease.written_off": Phrase(OVER, lambda fields, _: _tell_written_off(fields)),
}

_STATUSES_IMPLIED = ("pending", "starting", "running", "paused", "recovering", "migrating")
IMPLIED = frozenset({"agent.reported", "lease.promoted", *(f"job.{status}" for status in _STATUSES_IMPLIED)})
"""Events that the lines of machines imply."""
