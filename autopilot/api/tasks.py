"""What can be done to the tasks of an array: one, several, or all that have failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime

from autopilot import render
from autopilot.api.once import Once
from autopilot.books.finding import find_job, tasks_of
from autopilot.domain import events as e
from autopilot.domain.after import paired_with
from autopilot.domain.array import split_task
from autopilot.domain.errors import UserError
from autopilot.domain.inputs import left_inputs
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.arrays import begin_record, find_table, rows_of, task_of
from autopilot.engine.event_log import EventLog
from autopilot.engine.outstanding import Moment
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import Store, UnitOfWork

MOST_AT_ONCE = 1000
"""Tasks of one call."""


class TaskService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        wake: Callable[[], None],
        render_job: Callable[[Job, Moment], render.Json],
        read_moment: Callable[..., Awaitable[Moment]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._wake = wake
        self._render = render_job
        self._read_moment = read_moment

    async def cancel(self, reference: str) -> render.Json:
        """``JOB/17`` or ``JOB/3-9``: those that are over stay as they are, those that have not begun never will.

        The task, or the array of several. Raises ``UserError``.
        """
        now = self._clock.now()
        async with self._store.transaction() as uow:
            array, numbers = await self._find(uow, reference)
            if array.status.is_final:
                raise UserError(f"job {array.spec.name} is over: {array.status}")
            known = await self._find_known(uow, array, numbers)
            logs = [EventLog(job) for job in known.values() if not job.status.is_final]
            if not logs and len(known) == len(numbers):
                raise UserError(f"{reference} is over", hint=f"autopilot ps {array.spec.name} shows its tasks")
            for each in logs:
                each.apply(e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, now))
            logs += await self._begin_cancelled(uow, array, [task for task in numbers if task not in known], now)
            await _save(uow, logs)
            one = next((each.job for each in logs if len(numbers) == 1), array)
            answer = self._render(one, await self._read_moment(uow, array))
        self._wake()
        return answer

    async def retry(self, reference: str, *, failed: bool, once: Once | None = None) -> render.Json:
        """Restarts tasks that failed or were cancelled when there is room for them, with all their attempts.

        ``failed``: all tasks of the array that failed, and those cancelled because of it. Raises ``UserError``.
        """
        now = self._clock.now()
        async with self._store.transaction() as uow:
            if failed == bool(split_task(reference)[1]):
                hint = "name tasks, JOB/17 or JOB/3-9, or ask for --failed of an array"
                raise UserError("retry takes tasks of an array", hint=hint)
            array, numbers = await self._find(uow, reference)
            _refuse_ended(array, (await uow.jobs.count_tasks([array.id]))[array.id].succeeded)
            if failed:
                over = [
                    job
                    for status in (JobStatus.FAILED, JobStatus.CANCELLED)
                    for job in await uow.jobs.list_tasks(array.id, limit=MOST_AT_ONCE, statuses=[status])
                ]
                chosen = [job for job in over if _has_failed(job)][:MOST_AT_ONCE]
            else:
                known = await self._find_known(uow, array, numbers)
                chosen = [job for job in known.values() if job.status in (JobStatus.FAILED, JobStatus.CANCELLED)]
            is_held_up = failed and array.reason is Reason.DEPENDENCY_FAILED  # those that never began may begin now
            if not chosen and not is_held_up:
                raise UserError(f"no task of {reference} has failed or was cancelled")
            if held := next((job for job in chosen if job.on_hold), None):
                hint = f"give it back first: autopilot release {held.spec.name}"
                raise UserError(f"the machine of {held.spec.name} is held", hint=hint)
            _refuse_never_followed(array, chosen)
            logs = [EventLog(job) for job in chosen]
            for each in logs:
                each.apply(e.TaskRetried(now))
            whole = EventLog(array)
            if array.status.is_final:
                whole.apply(e.StatusSet(JobStatus.RUNNING, Reason.RETRIED, now))
            await _save(uow, [*logs, whole])
            one = logs[0].job if len(logs) == 1 and not failed else whole.job
            told = sorted(job.task for job in chosen if job.task is not None)
            answer = {"job": self._render(one, await self._read_moment(uow, whole.job)), "tasks": told}
            if once is not None:
                await once.keep(uow, 200, answer)
        self._wake()
        return answer

    async def spread_change(self, uow: UnitOfWork, whole: EventLog, now: datetime) -> None:
        """Tasks that are open get the array's new limits on prices, and so much more or less time. An array that its
        budget has parked goes on where that is more.
        """
        old, new = whole.original.spec, whole.job.spec
        still = [status for status in JobStatus if not status.is_final]
        logs = [EventLog(job) for job in await uow.jobs.list_tasks(whole.job.id, limit=MOST_AT_ONCE, statuses=still)]
        for each in logs:
            due = _shift(each.job.spec.deadline, old.deadline, new.deadline)
            spec = replace(each.job.spec, max_bid=new.max_bid, max_hourly=new.max_hourly, deadline=due)
            if spec != each.job.spec:
                each.apply(e.SpecChanged(spec, now))
        await _save(uow, [each for each in logs if each.changed])
        is_more = old.budget is not None and (new.budget is None or new.budget > old.budget)
        if is_more and whole.job.reason is Reason.BUDGET_EXHAUSTED and whole.job.status is JobStatus.PARKED:
            whole.apply(e.StatusSet(JobStatus.PENDING, Reason.ROOM_AGAIN, now))

    async def _find(self, uow: UnitOfWork, reference: str) -> tuple[Job, range]:
        """The array, and the tasks that are named; all where none is."""
        name, tasks = split_task(reference)
        array = await find_job(uow, name)
        numbers = tasks_of(array, tasks or f"0-{array_count(array) - 1}")
        if tasks and len(numbers) > MOST_AT_ONCE:
            raise UserError(f"{len(numbers):,} tasks are too many for one call", hint=f"name {MOST_AT_ONCE:,} at most")
        return array, numbers

    async def _find_known(self, uow: UnitOfWork, array: Job, numbers: range) -> dict[int, Job]:
        found = await uow.jobs.list_tasks(array.id, first=numbers[0], limit=len(numbers))
        return {job.task: job for job in found if job.task is not None and job.task in numbers}

    async def _begin_cancelled(self, uow: UnitOfWork, array: Job, numbers: list[int], now: datetime) -> list[EventLog]:
        table = await find_table(uow, array) if numbers else None
        rows = None if table is None else rows_of(table)
        logs = [EventLog(task_of(array, task, rows, array.spec.deadline, self._ids.new(), now)) for task in numbers]
        await uow.jobs.save_all([each.job for each in logs])
        await uow.events.add(begin_record(each.job, now) for each in logs)
        for each in logs:
            each.apply(e.StatusSet(JobStatus.CANCELLED, Reason.USER_CANCELLED, now))
        return logs


def refuse_task(job: Job) -> None:
    """Raises ``UserError`` if the job is a task: limits are the array's."""
    if job.array_id is not None:
        name = split_task(job.spec.name)[0]
        raise UserError("a task has no limits of its own", hint=f"change its array: autopilot change {name} …")


def _shift(due: datetime | None, old: datetime | None, new: datetime | None) -> datetime | None:
    """When a task is due whose array was due at ``old`` and now is at ``new``."""
    if due is None or old is None or new is None:
        return new
    return due + (new - old)


def array_count(array: Job) -> int:
    """Raises ``UserError`` for a job without tasks."""
    if array.spec.array is None:
        raise UserError(f"job {array.spec.name} has no tasks", hint="it is no array; submit it again")
    return array.spec.array.count


def _refuse_ended(array: Job, succeeded: int) -> None:
    if array.spec.array is not None and succeeded >= array.spec.array.needed:
        raise UserError(f"job {array.spec.name} already has all required successes: {succeeded}")
    if array.status in (JobStatus.CANCELLED, JobStatus.CANCELLING):
        raise UserError(f"job {array.spec.name} is {array.status}", hint="submit it again")


def _has_failed(job: Job) -> bool:
    return job.status is JobStatus.FAILED or job.reason is Reason.TOO_MANY_FAILURES


def _refuse_never_followed(array: Job, tasks: Sequence[Job]) -> None:
    """Raises ``UserError`` for one that was cancelled before it knew whose outputs it takes."""
    followed = paired_with(array.spec.after)
    for task in tasks:
        if any(left.job in followed for left in left_inputs(task.spec.inputs)):
            hint = "submit the array again"
            raise UserError(f"{task.spec.name} was cancelled before the task that it follows had ended", hint=hint)


async def _save(uow: UnitOfWork, logs: list[EventLog]) -> None:
    await uow.jobs.save_all([each.job for each in logs])
    await uow.events.add([record for each in logs for record in each.records])
