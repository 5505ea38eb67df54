"""``autopilot plan``: what a job would probably cost and whether it would be done in time; nothing is submitted."""

from __future__ import annotations

import sys
from pathlib import Path

from cyclopts import Parameter

from autopilot.cli import code, plan_views
from autopilot.cli.client import Client, JobIsDouble, Json
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile, read_job_file
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.config.client_file import read_client_file
from autopilot.config.ssh_key import with_key
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")


def plan(file: JobFile, /, *, min_probability: float = 0.8, output: Output = FOR_PEOPLE) -> int:
    """Show what a job would cost, how likely it is to be done in time, and what else it could cost; submit nothing.

    Exits with 4 for a job that submit would refuse.

    Parameters
    ----------
    file
        The job file, or - for standard input.
    min_probability
        A job with a deadline is refused when it is less likely than this, money aside, to be done in time.
    """
    client = Client()
    body = ask(client, file, min_probability, dry_run=True)
    if not output.is_for_people:
        output.print(body)
    else:
        show(client, body)
    return exit_of(body)


def ask(
    client: Client, file: Path, min_probability: float, *, dry_run: bool, again: bool = False, plan_id: str = ""
) -> Json:
    """The daemon's answer to a job file: its plan, and the job unless ``dry_run``."""
    toml, source = read_job_file(file)
    beside = Path.cwd() if str(file) == "-" else file.absolute().parent
    return ask_of(client, toml, source, beside, min_probability, dry_run=dry_run, again=again, plan_id=plan_id)


def ask_of(
    client: Client,
    toml: str,
    source: str,
    beside: Path,
    min_probability: float,
    *,
    dry_run: bool,
    again: bool = False,
    plan_id: str = "",
) -> Json:
    """``beside``: the directory that paths of ``[code]`` are relative to; ``again``: a second job of the same is meant;
    ``plan_id``: what a person has confirmed.

    On a terminal it asks whether that is so. Raises ``UserError``, ``CommandError``.
    """
    if not 0 <= min_probability <= 1:
        raise UserError(f"--min-probability must be from 0 to 1, not {min_probability:g}")
    toml = with_key(toml, source, beside, read_client_file().ssh_key)
    asked: Json = {"toml": toml, "source": source, "dry_run": dry_run, "min_probability": min_probability}
    asked |= {"plan": plan_id} if plan_id else {}
    sent = code.send(client, beside, toml, source, dry_run=dry_run)
    if sent is not None:
        asked["code"] = sent[0]
    body = client.post("/v1/jobs", asked) if dry_run else _submit(client, asked, again)
    if sent is not None:
        body["plan"]["notes"].insert(0, sent[1])
    return body


def _submit(client: Client, asked: Json, again: bool) -> Json:
    try:
        return client.act_once("POST", "/v1/jobs", {**asked, "again": again})
    except JobIsDouble as problem:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        if input(f"{problem.message}. Submit another one? [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError(Exit.USAGE, "nothing was submitted") from None
    return client.act_once("POST", "/v1/jobs", {**asked, "again": True})


def show(client: Client, body: Json) -> None:
    out = console()
    for part in plan_views.plan(body["plan"], client.market_now()):
        out.print(part)


def exit_of(body: Json) -> int:
    return Exit.REFUSED if body["plan"].get("refusal") else Exit.OK
