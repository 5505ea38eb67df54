"""What can be done from the page: each action with a page that says what it costs, and nothing before that is sent.

Words and order are those of the commands: ``cli.actions``, ``cli.plan``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import quote

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Job, JobAnswer, JobLife, Submitted
from autopilot.client.errors import ApiError
from autopilot.config.draft import Draft
from autopilot.domain.errors import UserError
from autopilot.domain.money import ZERO, usd
from autopilot.domain.token import Scope
from autopilot.ids import new_name
from autopilot.listener.gate import KnownLogin
from autopilot.web import words
from autopilot.web.daemon_source import DaemonLink, DaemonSource
from autopilot.web.plan_view import PlanView, view_plan
from autopilot.web.shapes import spent_of
from autopilot.web.source import Visitor

JOB_FILE_BYTES = 200_000
CHANGES = {
    "budget": "Budget",
    "deadline": "Deadline",
    "max_price": "Maximum machine price, per hour",
    "max_hourly": "Maximum price with disk, per hour",
    "max_rate": "Maximum spend rate, per hour",
}
"""Keys of ``PATCH /v1/jobs/{ref}``, in the order of ``autopilot change``."""
DONE = {
    "submit": "Submitted.",
    "stop": "Saving its work; then the job will be parked.",
    "resume": "Resumed.",
    "change": "Changed.",
    "release": "The machine is being released.",
    "cancel": "Cancelling.",
}
"""What the job's page says after each."""
_ENDED = ("succeeded", "failed", "cancelled")
_LEAVING = ("stopping", "cancelling")


class Verb(NamedTuple):
    name: str
    scope: Scope
    is_final: bool = False
    """It cannot be taken back."""


VERBS = {
    "stop": Verb("Stop and save", Scope.OPERATE),
    "resume": Verb("Resume", Scope.OPERATE),
    "change": Verb("Change limits", Scope.SUBMIT),
    "release": Verb("Release the machine", Scope.OPERATE),
    "cancel": Verb("Cancel", Scope.OPERATE, is_final=True),
}


class FormField(NamedTuple):
    name: str
    label: str
    value: str
    now: str
    """The current value."""
    example: str


@dataclass(frozen=True)
class Confirmation:
    job: Job
    verb: str
    title: str
    sentences: list[str]
    """What it does, and what it costs."""
    button: str
    is_final: bool
    fields: list[FormField]
    """To be filled in before there is anything to confirm."""
    given: dict[str, str]
    """What is sent on."""
    checkpoints: list[tuple[str, str]]
    """Those that a resume may go back to."""
    once: str
    problem: ApiError | None


@dataclass(frozen=True)
class DraftPage:
    toml: str
    plan: PlanView | None
    problem: UserError | None
    line: int | None
    """Line of the job file with the problem."""
    once: str
    message: str = ""
    """What the problem is, without its place."""
    job_id: str = ""
    """Id of the submitted job."""
    status: int = 200
    is_double: bool = False


def list_verbs(job: Job, visitor: Visitor) -> list[tuple[str, Verb]]:
    """What may be done with a job now."""
    status, found = job.status, []
    if job.held_until:
        found.append("release")
    if status not in _ENDED and status not in _LEAVING:
        found += ["resume" if status == "parked" else "stop"]
        found += ["change"] if job.array is None else []  # a task has no limits of its own
    if status not in _ENDED and status != "cancelling":
        found.append("cancel")
    return [(verb, VERBS[verb]) for verb in found if visitor.may(VERBS[verb].scope)]


async def build_confirmation(
    source: DaemonSource,
    visitor: Visitor,
    where: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    problem: ApiError | None = None,
) -> Confirmation:
    """``given``: what a form that was refused had in it. Raises ``ApiError``, ``JobNotFound``."""
    verb = where["verb"]
    if verb not in VERBS:
        raise UserError(f"unknown action {verb!r}", hint=f"one of: {', '.join(VERBS)}")
    if not visitor.may(VERBS[verb].scope):
        hint = f"this needs the scope {VERBS[verb].scope}"
        raise ApiError(403, "forbidden", f"your scope is {visitor.scope}", hint=hint)
    life = from_json(JobLife, await source.get(f"/v1/jobs/{quote(where['ref'], safe='')}"))
    job, now = life.job, source.now
    wish = {key: value for key, value in (given or {}).items() if key in CHANGES and value.strip()}
    is_form = verb == "change" and (not wish or problem is not None)
    return Confirmation(
        job,
        verb,
        _TITLES[verb].format(name=words.plain(job.name)),
        _tell_change(job, wish) if wish and not is_form else _tell(verb, job, now),
        "Review the change" if is_form else VERBS[verb].name,
        VERBS[verb].is_final,
        _list_fields(job, wish, now) if is_form else [],
        wish,
        _list_checkpoints(life, now) if verb == "resume" else [],
        new_name(),
        problem,
    )


_TITLES = {
    "stop": "Stop {name} and save its work?",
    "resume": "Resume {name}?",
    "change": "Change what {name} may cost",
    "release": "Release the machine of {name}?",
    "cancel": "Cancel {name} for good?",
}


def _tell(verb: str, job: Job, now: datetime) -> list[str]:
    spent = f"It has cost {words.money(spent_of(job))} so far"
    budget = "and has no budget" if job.budget is None else f"of its budget of {words.money(job.budget)}"
    machines = [each for each in (job.main, job.next) if each]
    burn = sum((each.bid + each.storage_rate for each in machines), ZERO)
    billed = f"Its {'machine bills' if len(machines) == 1 else 'machines bill'} up to {words.per_hour(burn)}"
    told = [f"{spent} {budget}."]
    if verb == "cancel":
        told.append(
            f"{billed} until {'it is' if len(machines) == 1 else 'they are'} gone."
            if machines
            else "Nothing is billed for it now."
        )
        told.append(_tell_saved(job, now))
        if job.held > ZERO:
            told.append(f"{words.money(job.held)} reserved for it becomes available.")
        told.append("It cannot be resumed.")
    elif verb == "stop":
        told.append(f"{billed} until its work is saved." if machines else "Nothing is billed for it now.")
        told.append("It is parked until it is resumed; a new machine then has to be set up, which is billed.")
    elif verb == "resume":
        left = None if job.budget is None else job.budget - spent_of(job) - job.held
        limit = "it has no budget." if left is None else f"it may cost up to {words.money(max(left, ZERO))} more."
        told.append(f"It resumes from its newest checkpoint; {limit}")
    elif verb == "release":
        told.append(f"{billed} until it is gone." if machines else "The kept machine bills until it is gone.")
        told.append("Everything on its disk is lost.")
    else:
        told.append(
            "A change that leaves less money or time is checked like a submit. Leave a field empty to keep its value."
        )
    return told


def _tell_saved(job: Job, now: datetime) -> str:
    saved = job.checkpoint
    if saved is None:
        return "None of its work is saved." if job.work_done_s else "It has done no work yet."
    age = words.duration(now - saved.verified_at)
    return f"Its newest checkpoint is {age} old; work since then is lost."


def _tell_change(job: Job, wish: Mapping[str, str]) -> list[str]:
    """Each change, and what it may cost. Raises ``UserError`` for an amount that is none."""
    told = []
    for key, value in wish.items():
        if key == "deadline":
            old = _due(job)
            told.append(f"The deadline becomes {words.plain(value)}; it was {old}.")
            continue
        if value.strip() == "none":
            told.append(f"{CHANGES[key]}: no limit.")
            if key == "budget":
                told.append("It can then cost up to the account's limits.")
            continue
        amount = usd(value)
        told.append(f"{CHANGES[key]}: {words.money(amount)}.")
        if key == "budget":
            told.append(_tell_budget(job, amount))
    return told


def _due(job: Job) -> str:
    if job.due_within_s is not None:
        return f"{words.duration(job.due_within_s)} from when its predecessors have ended"
    return "none" if job.deadline is None else words.moment_in_zone(job.deadline)


def _tell_budget(job: Job, amount: Decimal) -> str:
    spent = spent_of(job)
    if job.budget is None:
        left = words.money(max(amount - spent, ZERO))
        return f"It has cost {words.money(spent)} and had no budget: it may cost {left} more."
    more = amount - job.budget
    step = f"{words.money(more)} more" if more >= ZERO else f"{words.money(-more)} less"
    return f"It may cost {step} than now: up to {words.money(amount)}, with {words.money(spent)} already spent."


def _list_fields(job: Job, wish: Mapping[str, str], now: datetime) -> list[FormField]:
    current = {"budget": "none" if job.budget is None else words.money(job.budget), "deadline": _due(job)}
    examples = {"budget": "30", "deadline": "+6h, 12h or 2026-12-24T18:00Z"}
    return [
        FormField(key, label, wish.get(key, ""), current.get(key, ""), examples.get(key, "0.90 or none"))
        for key, label in CHANGES.items()
    ]


def _list_checkpoints(life: JobLife, now: datetime) -> list[tuple[str, str]]:
    return [
        (
            f"{each.lease_id}.{each.number}",
            f"step {each.step:,}, {words.duration(now - each.verified_at)} ago",
        )
        for each in reversed(life.checkpoints)
    ][:20]


async def act(
    link: DaemonLink, login: KnownLogin, reference: str, verb: str, form: Mapping[str, str], peer: str
) -> str:
    """Do it; returns the job's id. Raises ``ApiError``, ``JobNotFound``, ``UserError``."""
    if verb not in VERBS:
        raise UserError(f"unknown action {verb!r}", hint=f"one of: {', '.join(VERBS)}")
    path, once = f"/v1/jobs/{quote(reference, safe='')}", form.get("once", "")
    if verb == "change":
        wish = {key: form[key] for key in CHANGES if form.get(key, "").strip()}
        answer = await link.ask(login, "PATCH", path, body=wish, once=once, peer=peer)
    elif verb == "resume":
        body = {"from_checkpoint": form["from_checkpoint"]} if form.get("from_checkpoint") else {}
        answer = await link.ask(login, "POST", f"{path}/resume", body=body, once=once, peer=peer)
    else:
        answer = await link.ask(login, "POST", f"{path}/{verb}", body={}, peer=peer)
    return from_json(JobAnswer, answer).job.id


def build_draft(visitor: Visitor) -> DraftPage:
    """Raises ``ApiError``."""
    if not visitor.may(Scope.SUBMIT):
        raise ApiError(403, "forbidden", f"your scope is {visitor.scope}", hint="this needs the scope submit")
    draft = Draft("train", "python train.py", estimate="2h", budget="$5.00", checkpoint="ckpt")
    return DraftPage(draft.write(), None, None, None, new_name())


async def plan_or_submit(
    link: DaemonLink, login: KnownLogin, now: datetime, form: Mapping[str, str], peer: str
) -> DraftPage:
    """A plan of the job file in the form, or with ``do=submit`` the job.

    Raises ``ApiError`` for what is no job file's fault.
    """
    toml, once = form.get("toml", "").replace("\r\n", "\n"), form.get("once") or new_name()
    is_submit = form.get("do") == "submit"
    asked = {"toml": toml, "source": "job.toml", "dry_run": not is_submit, "again": form.get("again") == "1"}
    if len(toml.encode()) > JOB_FILE_BYTES:
        problem = UserError("the job file is too large", hint=f"at most {JOB_FILE_BYTES:,} bytes")
        return DraftPage(toml[:JOB_FILE_BYTES], None, problem, None, once, problem.message, status=413)
    try:
        answer = await link.ask(login, "POST", "/v1/jobs", body=asked, once=once if is_submit else "", peer=peer)
    except ApiError as refusal:
        if refusal.status == 403:
            raise
        is_double = refusal.reason == "same_job_open"
        line = _find_line(refusal.message)
        message = refusal.message if line is None else refusal.message.removeprefix(f"job.toml:{line}: ")
        return DraftPage(toml, None, refusal, line, new_name(), message, status=refusal.status, is_double=is_double)
    made = from_json(Submitted, answer)
    if made.job is not None:
        return DraftPage(toml, None, None, None, once, job_id=made.job.id)
    return DraftPage(toml, view_plan(made.plan, now), None, None, new_name())


def _find_line(message: str) -> int | None:
    """``job.toml:4: unknown key``."""
    name, _, rest = message.partition(":")
    number = rest.partition(":")[0]
    return int(number) if name == "job.toml" and number.isdecimal() and len(number) < 7 else None
