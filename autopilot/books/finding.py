"""The job that a request names."""

from __future__ import annotations

from autopilot.domain.array import read_tasks, split_task
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.ports.store import UnitOfWork

LEAST_PREFIX = 6
"""Characters of an id that identify it."""


class JobNotFound(UserError):
    """No such job."""


async def find_job(uow: UnitOfWork, reference: str) -> Job:
    """By id, by the unique beginning of one, or the newest of that name; ``JOB/17`` is a task. Raises ``UserError``."""
    whole, task = split_task(reference)
    if task:
        return await _find_task(uow, await find_job(uow, whole), task)
    job = await uow.jobs.find(reference)
    if job is not None:
        return job
    begin_so = await uow.jobs.list_by_prefix(reference) if len(reference) >= LEAST_PREFIX else ()
    if len(begin_so) > 1:
        names = ", ".join(f"{each.id} ({each.spec.name})" for each in begin_so)
        raise UserError(f"{reference!r} is a prefix of several job ids", hint=f"use more of it: {names}")
    raise no_such_job(reference)


async def _find_task(uow: UnitOfWork, array: Job, task: str) -> Job:
    numbers = tasks_of(array, task)
    if len(numbers) > 1:
        raise UserError(f"{task} are several tasks", hint=f"name one of them, like {array.spec.name}/{numbers[0]}")
    found = await uow.jobs.list_tasks(array.id, first=numbers[0], limit=1)
    if not found or found[0].task != numbers[0]:
        hint = f"autopilot show {array.spec.name} shows how many have"
        raise UserError(f"task {task} of {array.spec.name} has not started", hint=hint)
    return found[0]


def tasks_of(array: Job, tasks: str) -> range:
    """The tasks that ``17`` or ``3-9`` names. Raises ``UserError``."""
    if array.spec.array is None:
        raise JobNotFound(
            f"job {array.spec.name} has no tasks", hint="it is not an array: omit the slash and what follows"
        )
    count, numbers = array.spec.array.count, read_tasks(tasks)
    if numbers is None or numbers[-1] >= count:
        hint = f"its tasks are 0 to {count - 1}: JOB/17 is one of them, JOB/3-9 are seven"
        raise JobNotFound(f"job {array.spec.name} has no task {tasks[:20]!r}", hint=hint)
    return numbers


def refuse_array(job: Job, what: str) -> None:
    """Raises ``UserError`` if only a task of it has what is asked for."""
    if job.is_array:
        hint = f"name a task: {job.spec.name}/0; autopilot ps {job.spec.name} lists those that have started"
        raise UserError(f"job {job.spec.name} is an array: its tasks have {what}", hint=hint)


def no_such_job(reference: str) -> JobNotFound:
    return JobNotFound(f"no job {reference!r}", hint="autopilot ps -a lists all jobs")
