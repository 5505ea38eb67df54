"""``autopilot plan``: what a job would probably cost and whether it would be done in time; nothing is submitted."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cyclopts import Parameter

from autopilot.answers.jobs import Job, Submitted, SubmittedSet
from autopilot.answers.plans import Plan
from autopilot.answers.record import record
from autopilot.answers.schedules import Scheduled
from autopilot.cli import code, plan_views, rehearsed, schedules
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile, read_job_file
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.answer import Json
from autopilot.client.errors import ApiError
from autopilot.client.json_client import JsonClient
from autopilot.code.table import read_table_of
from autopilot.config.client_file import read_client_file
from autopilot.config.ssh_key import with_key
from autopilot.config.toml_document import read_toml
from autopilot.domain.errors import UserError
from autopilot.words import text

Flag = Parameter(negative="")


@record(frozen=True, kw_only=True)
class SubmittedFile(Submitted):
    file: str


@record(frozen=True, kw_only=True)
class SubmittedFiles:
    """Of several job files, in their order."""

    jobs: list[SubmittedFile]


Answer = Submitted | Scheduled | SubmittedFiles


def plan(file: JobFile, /, *files: JobFile, min_probability: float = 0.8, output: Output = FOR_PEOPLE) -> int:
    """Show a job's likely cost, its chance to meet the deadline, and the alternatives, without submitting it.

    Exits with 4 for a job that submit would refuse.

    Parameters
    ----------
    file
        The job file, or - for standard input.
    files
        More job files, which can name each other in `after`.
    min_probability
        Refuse a job with a deadline if its chance to finish in time, money aside, is lower than this.
    """
    client = JsonClient()
    body = ask(client, [file, *files], min_probability, dry_run=True)
    if not output.is_for_people:
        output.print(body)
    else:
        show(client, body)
        if isinstance(body, Scheduled):
            print("", *schedules.tell(body), sep="\n")
    return exit_of(body)


def ask(
    client: JsonClient,
    files: Sequence[Path],
    min_probability: float,
    *,
    dry_run: bool,
    again: bool = False,
    plan_id: str = "",
) -> Answer:
    """The daemon's answer to job files. There is no job with ``dry_run``."""
    if len({str(file) for file in files}) < len(files):
        raise UserError("the same file is given twice", hint="to submit the same job again, run submit --again")
    if len(files) == 1:
        toml, source, beside = _read(files[0])
        return ask_of(client, toml, source, beside, min_probability, dry_run=dry_run, again=again, plan_id=plan_id)
    _check_probability(min_probability)
    sent = [_send(client, *_read(file), dry_run=dry_run) for file in files]
    asked: Json = {"jobs": [part for part, _ in sent], "dry_run": dry_run, "min_probability": min_probability}
    asked |= {"plan": plan_id} if plan_id else {}
    body = client.post("/v1/sets", asked) if dry_run else _submit(client, "/v1/sets", asked, again)
    answers = zip(read(SubmittedSet, body).jobs, sent, strict=True)
    return SubmittedFiles(
        jobs=[
            SubmittedFile(job=made.job, plan=_with_notes(said, made.plan), file=part["source"])
            for made, (part, said) in answers
        ]
    )


def _read(file: Path) -> tuple[str, str, Path]:
    """Text, name for messages, and the directory that paths of ``[code]`` are relative to."""
    return *read_job_file(file), Path.cwd() if str(file) == "-" else file.absolute().parent


def ask_of(
    client: JsonClient,
    toml: str,
    source: str,
    beside: Path,
    min_probability: float,
    *,
    dry_run: bool,
    again: bool = False,
    plan_id: str = "",
) -> Submitted | Scheduled:
    """``beside``: the directory that paths of ``[code]`` are relative to; ``again``: a second job of the same is meant;
    ``plan_id``: what a person has confirmed.

    On a terminal it asks whether that is so. Raises ``UserError``, ``CommandError``.
    """
    _check_probability(min_probability)
    part, said = _send(client, toml, source, beside, dry_run=dry_run)
    asked: Json = {**part, "dry_run": dry_run, "min_probability": min_probability}
    asked |= {"plan": plan_id} if plan_id else {}
    if _is_schedule(toml, source):
        act = client.post if dry_run else partial(client.act_once, "POST")
        scheduled = read(Scheduled, act("/v1/schedules", asked))
        return replace(scheduled, plan=_with_notes(said, scheduled.plan))
    body = client.post("/v1/jobs", asked) if dry_run else _submit(client, "/v1/jobs", asked, again)
    submitted = read(Submitted, body)
    return replace(submitted, plan=_with_notes(said, submitted.plan))


def _with_notes(said: list[str], planned: Plan) -> Plan:
    return replace(planned, notes=[*said, *planned.notes])


def _is_schedule(toml: str, source: str) -> bool:
    """What cannot be read is for the daemon to say."""
    with contextlib.suppress(UserError):
        return "schedule" in read_toml(toml, source).values
    return False


def _check_probability(least: float) -> None:
    if not 0 <= least <= 1:
        raise UserError(f"--min-probability must be from 0 to 1, not {least:g}")


def _send(client: JsonClient, toml: str, source: str, beside: Path, *, dry_run: bool) -> tuple[Json, list[str]]:
    """What a submit says of one job file, once its code is sent; and the notes of that. A submit names what was never
    rehearsed."""
    toml = with_key(toml, source, beside, read_client_file().ssh_key)
    part: Json = {"toml": toml, "source": source}
    if (table := read_table_of(toml, beside)) is not None:
        part["table"] = table
    sent = code.send(client, beside, toml, source, dry_run=dry_run)
    notes = [] if dry_run else rehearsed.name_once(toml, source, beside)
    return (part, notes) if sent is None else (part | {"code": sent[0]}, [*sent[1], *notes])


def _submit(client: JsonClient, where: str, asked: Json, again: bool) -> Json:
    try:
        return client.act_once("POST", where, {**asked, "again": again})
    except ApiError as problem:
        if problem.reason != "same_job_open" or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        if input(f"{problem.message}. Submit another one? [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError(Exit.USAGE, "nothing was submitted") from None
    return client.act_once("POST", where, {**asked, "again": True})


def show(client: JsonClient, body: Answer) -> None:
    for made in _answers_of(body):
        if isinstance(made, SubmittedFile):
            console().print(f"\n{text.plain(made.file)}", markup=False, soft_wrap=True)
        show_plan(client, made.plan)


def show_plan(client: JsonClient, planned: Plan) -> None:
    for part in plan_views.plan(planned, client.market_now()):
        console().print(part)


def _answers_of(body: Answer) -> Sequence[Submitted | Scheduled]:
    """One for each job file."""
    return body.jobs if isinstance(body, SubmittedFiles) else [body]


def jobs_of(body: Answer) -> list[Job]:
    """Those that were made."""
    return [made.job for made in _answers_of(body) if isinstance(made, Submitted) and made.job is not None]


def exit_of(body: Answer) -> int:
    return Exit.REFUSED if any(made.plan.refusal for made in _answers_of(body)) else Exit.OK
