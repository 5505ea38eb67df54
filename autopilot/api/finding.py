"""The job that a request names."""

from __future__ import annotations

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.ports.store import UnitOfWork

LEAST_PREFIX = 6
"""Characters of an id that stand for it."""


class JobNotFound(UserError):
    """No such job."""


async def find_job(uow: UnitOfWork, reference: str) -> Job:
    """By id, by the unique beginning of one, or the newest of that name. Raises ``UserError``."""
    job = await uow.jobs.find(reference)
    if job is not None:
        return job
    begin_so = await uow.jobs.list_by_prefix(reference) if len(reference) >= LEAST_PREFIX else ()
    if len(begin_so) > 1:
        names = ", ".join(f"{each.id} ({each.spec.name})" for each in begin_so)
        raise UserError(f"{reference!r} begins the ids of several jobs", hint=f"say more of it: {names}")
    raise no_such_job(reference)


def no_such_job(reference: str) -> JobNotFound:
    return JobNotFound(f"no job {reference!r}", hint="autopilot ps -a lists all jobs")
