"""Commands that do something to jobs: stop, resume, change, cancel, release; and wait."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.jobs import Cancelled, Changed, Job, JobAnswer, Retried
from autopilot.cli import outcomes, plan, store_return
from autopilot.cli.answers import read
from autopilot.cli.exit_codes import exit_code_of
from autopilot.cli.exits import Exit
from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.domain.errors import UserError
from autopilot.words import text

Flag = Parameter(negative="")


def wait(job: str, /, *jobs: str) -> int:
    """Wait until jobs are finished or parked, and exit with their outcome.

    0: all succeeded. Otherwise the outcome of the first one that did not, in the given order: 1 failed, 4 parked,
    5 cancelled.

    Parameters
    ----------
    job
        A job's id or name.
    jobs
        More jobs.
    """
    try:
        return outcomes.wait_for(JsonClient(), [job, *jobs])
    except KeyboardInterrupt:
        return 130


def stop(job: str, /, *jobs: str) -> int:
    """Save a job's work, release its machines, and park it until autopilot resume.

    Parameters
    ----------
    job
        The job's id or name.
    jobs
        More jobs.
    """
    return _act_on([job, *jobs], "stop")


def cancel(
    *jobs: str,
    all: Annotated[bool, Flag] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
) -> int:
    """Stop jobs for good and release their machines.

    Parameters
    ----------
    jobs
        Ids or names; JOB/17 is one task of an array, JOB/3-9 are several.
    all
        Every open job.
    yes
        With --all: skip the prompt.
    """
    if all == bool(jobs):
        raise UserError("cancel takes jobs, or --all", hint="autopilot ps lists them")
    if all:
        jobs = _all_open(yes)
    return _act_on(jobs, "cancel")


def resume(
    job: str,
    /,
    *,
    from_checkpoint: str | None = None,
    from_store: Annotated[bool, Flag] = False,
    dry_run: Annotated[bool, Flag] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
) -> int:
    """Resume a parked job from its newest checkpoint, from an older one, or from what its store holds.

    Parameters
    ----------
    job
        The job's id or name.
    from_checkpoint
        Number of an older checkpoint, or LEASE.NUMBER if two share it (see `show`); newer ones are set aside.
    from_store
        After the ledger was put back from an older copy: take in the machines and checkpoints that the ledger lacks.
    dry_run
        With --from-store: only say what the store holds.
    yes
        With --from-store: do not ask.
    """
    if from_store:
        if from_checkpoint is not None:
            raise UserError("--from-store and --from-checkpoint exclude each other", hint="name one of them")
        return store_return.resume(JsonClient(), job, dry_run=dry_run, yes=yes)
    if dry_run or yes:
        raise UserError("--dry-run and --yes require --from-store", hint="omit them")
    return _act(job, "resume", {} if from_checkpoint is None else {"from_checkpoint": from_checkpoint})


def retry(task: str, /, *tasks: str, failed: Annotated[bool, Flag] = False) -> int:
    """Restart failed or cancelled tasks of an array, with all their attempts.

    They start as places become free: never more at once than `parallel` allows.

    Parameters
    ----------
    task
        JOB/17 for one task, JOB/3-9 for several; with --failed, the array.
    tasks
        More tasks.
    failed
        All failed tasks of the array, 1,000 at a time.
    """
    client = JsonClient()
    for each in (task, *tasks):
        answer = read(Retried, client.act_once("POST", job_path(each, "retry"), {"failed": failed}))
        count = len(answer.tasks)
        name = text.plain(answer.job.name)
        print(f"{name}: {count} task{'s' * (count != 1)} restarting")
    return Exit.OK


def release(job: str, /) -> int:
    """Release the machine that is kept after a job's last failed attempt ([debug] hold).

    `autopilot cancel` does the same for such a job.

    Parameters
    ----------
    job
        The job's id or name.
    """
    body = read(JobAnswer, JsonClient().post(job_path(job, "release"))).job
    print(f"the machine of {text.plain(body.name)} ({text.plain(body.id)}) is being released")
    return Exit.OK


def change(
    job: str,
    /,
    *changes: str,
    min_probability: float = 0.8,
    plan_id: Annotated[str, Parameter(name="--plan")] = "",
) -> int:
    """Change a job's budget, deadline or other limits while it runs.

    A change that leaves less money or time is checked like a submit.
    A job parked by its budget resumes by itself once a raised budget pays for a new machine.

    Parameters
    ----------
    job
        The job's id or name.
    changes
        budget=30 max_price=0.9 max_hourly=1 max_rate=2 parallel=8 deadline=12h deadline=+6h; also an instant, or =none.
    min_probability
        Refuse a tighter limit if it makes the job's chance to finish in time lower than this.
    plan_id
        The plan that a person has confirmed, if the token requires it.
    """
    wish = dict(map(_read_change, changes))
    client = JsonClient()
    asked = {"min_probability": min_probability} | ({"plan": plan_id} if plan_id else {})
    answer = read(Changed, client.act_once("PATCH", job_path(job), wish | asked))
    if answer.plan is not None:
        plan.show_plan(client, answer.plan)
    changed = answer.job
    cost = f"budget {text.money(changed.budget)}" if changed.budget is not None else "no budget"
    print(f"{text.plain(changed.name)} ({text.plain(changed.id)}) is changed: {cost}, {_due(client, changed)}")
    if changed.status == "parked" and changed.reason == "budget_exhausted":
        print("It is parked. It resumes by itself once its budget covers the full reserve for a new machine.")
    return Exit.OK


def _due(client: JsonClient, job: Job) -> str:
    if job.due_within_s is not None:
        return f"due {text.span(job.due_within_s)} after the jobs it waits for end"
    return f"due {text.when(job.deadline, client.market_now())}" if job.deadline else "no deadline"


def _read_change(change: str) -> tuple[str, str]:
    key, sign, value = change.partition("=")
    if not sign or not value:
        hint = "a shell takes $3 out of budget=$30: write budget=30" if sign else "write it as budget=30"
        raise UserError(f"{change!r} is not KEY=VALUE", hint=hint)
    return key, value


def _all_open(yes: bool) -> tuple[str, ...]:
    found = read(list[Job], JsonClient().get("/v1/jobs")["jobs"])
    if not found:
        print("no open jobs")
    elif not yes:
        names = ", ".join(text.plain(job.name) for job in found)
        if not sys.stdin.isatty():
            raise UserError(f"cancel --all would end {len(found)} jobs: {names}", hint="add --yes")
        if input(f"cancel {len(found)} jobs ({names})? [y/N] ").strip().lower() not in ("y", "yes"):
            return ()
    return tuple(job.id for job in found)


def _act_on(jobs: Sequence[str], verb: str) -> int:
    """All of them, also where one of them cannot; the exit code is that of the first that could not."""
    codes = []
    for job in jobs:
        try:
            codes.append(_act(job, verb))
        except DaemonError as problem:
            if len(jobs) == 1:
                raise
            print(f"error: {problem.message}", file=sys.stderr)
            codes.append(exit_code_of(problem))
    return next((code for code in codes if code), Exit.OK)


def _act(job: str, verb: str, wish: dict[str, str] | None = None) -> int:
    client = JsonClient()
    where = job_path(job, verb)
    answer = client.act_once("POST", where, wish) if verb == "resume" else client.post(where, wish)
    done = read(Cancelled, answer)
    name = f"{text.plain(done.job.name)} ({text.plain(done.job.id)})"
    if done.unrecorded is not None:
        print(
            f"{text.plain(done.unrecorded)}\n"
            f"{name} is cancelled anyway: its machines are being destroyed, and the ledger is updated as soon as it"
            " can be written. If the daemon stops before that, cancel the job again."
        )
    else:
        print(f"{name} is {text.plain(done.job.status)}")
    return Exit.OK
