"""Commands about jobs: submit, ps, show, logs, why, cancel, resume."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

from cyclopts import Parameter

from autopilot.cli import money_views, plan, text, views
from autopilot.cli import watch as watching
from autopilot.cli.client import Client, NotFound, instance_path, job_path
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile
from autopilot.cli.output import console, print_json
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")

FOLLOW_INTERVAL_S = 1.0


def submit(
    file: JobFile,
    /,
    *,
    dry_run: Annotated[bool, Flag] = False,
    min_probability: float = 0.8,
    json: Annotated[bool, Flag] = False,
) -> int:
    """Hand a job to the daemon, which runs it as cheaply as its deadline allows.

    Parameters
    ----------
    file
        The job file, or - for standard input.
    dry_run
        Show the plan and its cost; submit nothing.
    min_probability
        A job with a deadline is refused when it is less likely than this, money aside, to be done in time.
    json
        Print the answer as JSON.
    """
    client = Client()
    body = plan.ask(client, file, min_probability, dry_run=dry_run)
    if json:
        print_json(body)
        return plan.exit_of(body)
    plan.show(client, body)
    if job := body.get("job"):
        name = text.plain(job["name"])
        print(f"\nsubmitted {name} ({text.plain(job['id'])}); follow it: autopilot logs {name} -f")
    else:
        print("\nnothing was submitted (dry run)")
    return plan.exit_of(body)


def ps(
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative="")] = False,
    json: Annotated[bool, Flag] = False,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative="")] = False,
) -> int:
    """List jobs: those that are not over.

    Parameters
    ----------
    all
        Finished jobs, too.
    json
        Print the answer as JSON.
    watch
        Keep the list on the screen and up to date, until Ctrl-C; below it what happens, in sentences.
    """
    if json and watch:
        raise UserError("--json and --watch exclude each other")
    client = Client()
    query = 1 if all else None
    if json:
        print_json(client.get("/v1/jobs", all=query))
    elif watch:
        watching.watch(client, query)
    else:
        console().print(views.job_list(client.get("/v1/jobs", all=query)["jobs"], client.market_now(), all=all))
    return Exit.OK


def show(job: str, /, *, events: Annotated[bool, Flag] = False, json: Annotated[bool, Flag] = False) -> int:
    """Show one job: where it stands, its machines, its events and what it has cost. Or the whole life of one machine.

    Parameters
    ----------
    job
        The job's id or name; or a machine by its lease's id, the market's id of it, or its label.
    events
        Print events as names and fields, not as sentences.
    json
        Print the answer as JSON.
    """
    client = Client()
    try:
        body = client.get(job_path(job))
    except NotFound:
        return _show_instance(client, job, events, json)
    if json:
        print_json(body)
        return Exit.OK
    out = console()
    for part in views.job_detail(body, client.market_now(), with_fields=events):
        out.print(part)
    if body["job"]["status"] == "failed":
        for part in views.last_output(client.get(job_path(job, "logs"), tail=1)["chunks"]):
            out.print(part)
    return Exit.OK


def _show_instance(client: Client, ref: str, events: bool, json: bool) -> int:
    try:
        body = client.get(instance_path(ref))
    except NotFound:
        raise CommandError(
            Exit.USAGE,
            f"no job or machine {ref!r}",
            hint="autopilot ps -a lists all jobs, autopilot spend --by instance all machines",
        ) from None
    if json:
        print_json(body)
        return Exit.OK
    out = console()
    now = client.market_now()
    for number, life in enumerate(body["instances"]):
        if number:
            out.print("")
        for part in money_views.instance(life, now, with_fields=events):
            out.print(part)
    return Exit.OK


def logs(
    job: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative="")] = False,
) -> int:
    """Print the newest output of the job, 1 MB of it, across the machines that it ran on.

    A line on standard error tells where it went on. The newest 32 MB of each machine are kept.

    Parameters
    ----------
    job
        The job's id or name.
    follow
        Go on until the job is over or Ctrl-C.
    all
        Print everything that is kept.
    """
    client = Client()
    safe = text.harmless if sys.stdout.isatty() else str
    after: str | None = None
    at: tuple[str, int] | None = None
    try:
        while True:
            body = client.get(job_path(job, "logs"), after=after, tail=1 if after is None and not all else None)
            if body["earlier"]:
                print("──── earlier output: autopilot logs --all ────", file=sys.stderr, flush=True)
            for chunk in body["chunks"]:
                if at != (chunk["lease_id"], chunk["boot"]):
                    _mark(at, chunk)
                    at = chunk["lease_id"], chunk["boot"]
                sys.stdout.write(safe(chunk["text"]))
                after = chunk["key"]
            sys.stdout.flush()
            if not body["chunks"]:
                if body["finished"] or not follow:
                    return Exit.OK
                time.sleep(FOLLOW_INTERVAL_S)
    except KeyboardInterrupt:
        return Exit.OK


def _mark(before: tuple[str, int] | None, chunk: dict[str, Any]) -> None:
    """Where the output that follows comes from."""
    verb = "began on" if before is None else "moved to" if before[0] != chunk["lease_id"] else "started again on"
    sys.stdout.flush()
    print(f"──── {verb} {text.plain(chunk['where'])} ────", file=sys.stderr, flush=True)


def why(job: str, /, *, limit: int = 20, json: Annotated[bool, Flag] = False) -> int:
    """Explain what was decided for a job, with the numbers that it was decided by.

    Parameters
    ----------
    job
        The job's id or name.
    limit
        How many of the newest decisions.
    json
        Print the answer as JSON.
    """
    if limit < 1:
        raise UserError(f"--limit must be at least 1, not {limit}")
    client = Client()
    body = client.get(job_path(job, "why"), limit=limit)
    if json:
        print_json(body)
        return Exit.OK
    out = console()
    for line in [*views.standing(body["job"]), *views.decision_lines(body["decisions"])]:
        out.print(line)
    if not body["decisions"] and not body["job"]["waiting"]:
        out.print("  nothing was decided yet; the daemon decides every few seconds")
    return Exit.OK


def cancel(job: str, /) -> int:
    """Stop a job for good and release its machines.

    Parameters
    ----------
    job
        The job's id or name.
    """
    return _act(job, "cancel")


def resume(job: str, /, *, from_checkpoint: str | None = None) -> int:
    """Let a parked job go on from its newest checkpoint, or from an older one.

    Parameters
    ----------
    job
        The job's id or name.
    from_checkpoint
        Number of an older checkpoint, or LEASE.NUMBER where two have it (see `show`); newer ones are dropped for good.
    """
    return _act(job, "resume", {} if from_checkpoint is None else {"from_checkpoint": from_checkpoint})


def _act(job: str, verb: str, wish: dict[str, str] | None = None) -> int:
    body = Client().post(job_path(job, verb), wish)["job"]
    print(f"{text.plain(body['name'])} ({text.plain(body['id'])}) is {text.plain(body['status'])}")
    return Exit.OK
