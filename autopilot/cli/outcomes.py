"""The end of a job as an exit code, and waiting for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from autopilot.answers.jobs import Job, JobLife
from autopilot.cli.answers import read
from autopilot.cli.exit_codes import exit_code_of
from autopilot.cli.exits import Exit
from autopilot.cli.waiting import StageLines
from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.words import receipts, text

POLL_S = 2.0

EXITS: Mapping[str, Exit] = {
    "succeeded": Exit.OK,
    "failed": Exit.FAILED,
    "parked": Exit.REFUSED,
    "cancelled": Exit.CANCELLED,
}
"""By the status in which a job stays: nothing happens to it by itself, or somebody has to say what follows."""


def exit_of(job: Job) -> int:
    return EXITS.get(job.status, Exit.FAILED)


def wait_for(client: JsonClient, references: Sequence[str]) -> int:
    """Until each job is over or parked. The exit code is the outcome of the first, as named, that did not succeed.

    A daemon that does not answer for a while is waited for. Raises ``ApiError`` for a job that there is not.
    """
    ended: dict[str, int] = {}
    is_silent, waiting = False, StageLines()
    while True:
        for reference in references:
            if reference in ended:
                continue
            try:
                life = read(JobLife, client.get(job_path(reference)))
            except DaemonError as problem:
                if exit_code_of(problem) is not Exit.UNREACHABLE:
                    raise
                if not is_silent:
                    print(f"{problem.message}; waiting for it", file=sys.stderr, flush=True)
                is_silent = True
                break
            is_silent = False
            if life.job.status in EXITS:
                ended[reference] = exit_of(life.job)
                print(*tell(life), sep="\n", file=sys.stderr, flush=True)
            else:
                waiting.tell(life.job)
        if len(ended) == len(set(references)):
            return next((ended[each] for each in references if ended[each]), Exit.OK)
        time.sleep(POLL_S)


def tell(life: JobLife) -> list[str]:
    """How the job ended, and its receipt."""
    return [sentence(life.job), *([receipts.tell(life.receipt)] if life.receipt else [])]


def sentence(job: Job) -> str:
    named = f"{text.plain(job.name)} ({text.plain(job.id)})"
    if job.status == "parked":
        way_on = f"autopilot resume {text.plain(job.name)} resumes it"
        return f"{named} is parked: {text.words(job.reason)}; {way_on}"
    code = f" with exit code {job.exit_code}" if job.status == "failed" and job.exit_code else ""
    verb = "was cancelled" if job.status == "cancelled" else text.plain(job.status)
    return f"{named} {verb}{code}"
