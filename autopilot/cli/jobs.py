"""Commands that hand in a job and look at it: submit, ps, show, why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from autopilot.answers.jobs import Job, JobLife, Logs, Why
from autopilot.answers.schedules import Scheduled
from autopilot.answers.status import Status
from autopilot.cli import trouble, views
from autopilot.cli import watch as watching
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.client.answer import Json
from autopilot.client.errors import ApiError, DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import instance_path, job_path
from autopilot.domain.errors import UserError
from autopilot.words import text
from autopilot.words.options import EXPECTED_COST, OPTION

if TYPE_CHECKING:
    from rich.console import RenderableType

Flag = Parameter(negative="")
TASKS_A_PAGE = 1000
NOT_FOUND = 404


def submit(
    file: JobFile,
    /,
    *files: JobFile,
    dry_run: Annotated[bool, Flag] = False,
    min_probability: float = 0.8,
    again: Annotated[bool, Flag] = False,
    plan_id: Annotated[str, Parameter(name="--plan")] = "",
    wait: Annotated[bool, Flag] = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """Submit a job. The daemon runs it as cheaply as its deadline allows; with [schedule], repeatedly.

    Parameters
    ----------
    file
        The job file, or - for standard input.
    files
        More job files, which can name each other in `after`: all are accepted, or none.
    dry_run
        Show the plan and its cost without submitting.
    min_probability
        Refuse a job with a deadline if its chance to finish in time, money aside, is lower than this.
    again
        Submit even if an identical job of yours is still open.
    plan_id
        The plan that a person has confirmed, if the token requires it.
    wait
        Start a daemon if yours does not run; wait until the jobs are over or parked, and exit with their outcome.
    """
    if wait and dry_run:
        raise UserError("--wait and --dry-run exclude each other")
    from autopilot.cli import outcomes, plan, schedules, starting

    client = starting.connect() if wait else JsonClient()
    body = plan.ask(client, [file, *files], min_probability, dry_run=dry_run, again=again, plan_id=plan_id)
    if not output.is_for_people:
        output.print(body)
    jobs = plan.jobs_of(body)
    if output.is_for_people:
        plan.show(client, body)
        lines = schedules.tell(body) if isinstance(body, Scheduled) else _tell_submitted(jobs)
        print("", *lines, sep="\n")
        if wait and isinstance(body, Scheduled):
            print("there is no job to wait for yet: the first is made when it is due")
    return outcomes.wait_for(client, [job.id for job in jobs]) if wait and jobs else plan.exit_of(body)


def _tell_submitted(jobs: Sequence[Job]) -> list[str]:
    told = []
    for job in jobs:
        name = text.plain(job.name)
        waits = job.reason == "waiting_for_jobs"
        follow = f"autopilot show {name}" if job.tasks else f"autopilot logs {name} -f"
        then = f"what it waits for: autopilot why {name}" if waits else f"follow it: {follow}"
        told.append(f"submitted {name} ({text.plain(job.id)}); {then}")
    return told or ["nothing was submitted (dry run)"]


def ps(
    array: str | None = None,
    /,
    *,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative="")] = False,
    owner: str | None = None,
    tasks: Annotated[bool, Flag] = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """List open jobs and what they have spent together. An array is one line; with its name, its started tasks.

    Parameters
    ----------
    array
        Id or name of an array: list its tasks, including finished ones.
    all
        Include finished jobs.
    quiet
        Print only ids, one per line.
    watch
        Keep the list on the screen and up to date until Ctrl-C, with events below it.
    owner
        Only jobs of one owner: a user's name, token:NAME, proxy:NAME, or the owner number that a job shows.
    tasks
        Also list the open tasks of arrays.
    """
    if array is not None and (all or watch or owner is not None or tasks):
        raise UserError("the tasks of one array are listed with neither --all, --watch, --owner nor --tasks")
    if tasks and (all or watch):
        raise UserError("--tasks goes with neither --all nor --watch")
    if watch and owner is not None:
        raise UserError("--watch and --owner exclude each other")
    if sum((not output.is_for_people, watch, quiet)) > 1:
        raise UserError("--json or -o, --quiet and --watch exclude each other")
    client = JsonClient()
    query = 1 if all else None
    if watch:
        watching.watch(client, query)
        return Exit.OK
    body = _list_jobs(client, all=query, owner=owner, tasks=1 if tasks else None, array=array)
    if quiet:
        for job in body["jobs"]:
            print(text.plain(job["id"]))
    elif not output.is_for_people:
        output.print(body, "jobs")
    else:
        out, status = console(), read(Status, client.status())
        out.print(views.job_list(read(list[Job], body["jobs"]), status.now, all=all or array is not None))
        for line in trouble.tell(status):
            out.print(line, markup=False, highlight=False)
    return Exit.OK


def _list_jobs(client: JsonClient, array: str | None, **query: str | int | None) -> Json:
    """One page of jobs; of an array all its tasks, page by page."""
    if array is None:
        return client.get("/v1/jobs", **query)
    jobs: list[Json] = []
    after: str | None = None
    while True:
        page = client.get("/v1/jobs", array=array, after=after, limit=TASKS_A_PAGE)
        jobs += page["jobs"]
        after = page["next"]
        if after is None:
            return {"jobs": jobs, "next": None}


def show(
    job: str,
    /,
    *,
    events: Annotated[bool, Flag] = False,
    svg: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Show one job: its state, machines, events and cost; first, why it failed. Or the full history of one machine.

    Parameters
    ----------
    job
        Id or name of a job; or a machine by lease id, the market's id, or label.
    events
        Print events as names and fields instead of sentences.
    svg
        Draw the job into this file instead: prices, bids, machines, decisions and progress on one axis.
    """
    client = JsonClient()
    if svg is not None:
        from autopilot.cli.picture import write_picture

        write_picture(client, job, svg)
        print(f"drew {svg}")
        return Exit.OK
    try:
        body = client.get(job_path(job))
    except ApiError as problem:
        if problem.status != NOT_FOUND:
            raise
        return _show_instance(client, job, events, output)
    if not output.is_for_people:
        output.print(body, "events")
        return Exit.OK
    out, life = console(), read(JobLife, body)
    for part in (*_show_failure(client, life.job), *views.job_detail(life, client.market_now(), with_fields=events)):
        out.print(part)
    return Exit.OK


def _show_failure(client: JsonClient, job: Job) -> list[RenderableType]:
    """What is looked for first, before all else: the cause, the way on, and the last lines of output."""
    told = views.failure(job)
    if not told or job.tasks:
        return [*told, ""] if told else []
    try:
        output = read(Logs, client.get(job_path(job.id, "logs"), tail=1))
    except DaemonError as problem:
        return [*told, f"\nIts output cannot be read: {text.plain(problem.message)}\n"]
    return [*told, *views.last_output(output.chunks)]


def _show_instance(client: JsonClient, ref: str, events: bool, output: Output) -> int:
    try:
        body = client.get(instance_path(ref))
    except ApiError as problem:
        if problem.status != NOT_FOUND:
            raise
        raise CommandError(
            Exit.USAGE,
            f"no job or machine {ref!r}",
            hint="autopilot ps -a lists all jobs, autopilot spend --by instance all machines",
        ) from None
    if not output.is_for_people:
        output.print(body, "instances")
        return Exit.OK
    from autopilot.answers.instances import Instances
    from autopilot.cli import money_views

    out = console()
    now = client.market_now()
    for number, life in enumerate(read(Instances, body).instances):
        if number:
            out.print("")
        for part in money_views.instance(life, now, with_fields=events):
            out.print(part)
    return Exit.OK


def why(job: str, /, *, limit: int = 20, output: Output = FOR_PEOPLE) -> int:
    """Explain the decisions for a job, with the numbers behind them.

    Parameters
    ----------
    job
        The job's id or name.
    limit
        Number of newest decisions to show.
    """
    if limit < 1:
        raise UserError(f"--limit must be at least 1, not {limit}")
    client = JsonClient()
    body = client.get(job_path(job, "why"), limit=limit)
    if not output.is_for_people:
        output.print(body, "decisions")
        return Exit.OK
    out, told = console(), read(Why, body)
    for line in [*views.job_status(told.job), *views.decision_lines(told.decisions)]:
        out.print(line)
    noted = [note for each in told.decisions for note in each.notes]
    noted += told.job.waiting.notes if told.job.waiting else []
    if any(note.topic == OPTION for note in noted):
        out.print(EXPECTED_COST)
    if not told.decisions and not told.job.waiting:
        out.print("  nothing was decided yet; the daemon decides every few seconds")
    return Exit.OK
