"""Arrays in a tick: their tasks come into being as jobs when there is a place for them, and end them as they end.

All of it within the tick's transaction and before any job is decided upon, so a task is decided upon in the tick in
which it came into being. Of what has ended only what an earlier transaction has committed counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType

from autopilot.domain import events as e
from autopilot.domain.after import After
from autopilot.domain.array import (
    TASK_VARIABLE,
    TASKS_VARIABLE,
    ArraySpec,
    TaskCounts,
    combine,
    read_table,
    task_name,
)
from autopilot.domain.inputs import left_inputs, with_ids
from autopilot.domain.job import Job, JobSpec, JobStatus
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog, contain
from autopilot.engine.purses import with_tasks
from autopilot.engine.reuse import as_ended, excuse_before, find_free, hand_over, list_waiting
from autopilot.engine.task_pairs import Pairing, read_pairing, takes_own_inputs
from autopilot.policy.array_measures import Chosen, width_now
from autopilot.policy.arrays import Course, course_of
from autopilot.policy.guard import Exposure
from autopilot.policy.reuse import is_worth_keeping
from autopilot.policy.unpaid import waits_for_money
from autopilot.policy.width import Bound, Width, due_of_task
from autopilot.ports.ids import Ids
from autopilot.ports.store import DecisionRecord, EventRecord, UnitOfWork

MarketOf = Callable[[Job, Exposure], Market]
_PARKED_WITH_ARRAY = (Reason.USER_STOPPED, Reason.CONSOLE, Reason.BUDGET_EXHAUSTED)


class Arrays:
    """One per engine. Keeps only what it has told last."""

    def __init__(self, ids: Ids, params: Params) -> None:
        self._ids = ids
        self._params = params
        self._told: dict[str, tuple[int, Bound]] = {}

    async def advance(
        self,
        uow: UnitOfWork,
        event_logs: Sequence[EventLog],
        exposure: Exposure,
        room: int | None,
        market_of: MarketOf,
        busy: Collection[str],
        now: datetime,
    ) -> tuple[list[EventLog], Exposure]:
        """The tasks that begin in this tick, written down, and the exposure that knows of them.

        ``event_logs``: of all open jobs. ``room``: how many more machines the account may have. ``busy``: leases with a
        call on its way.
        """
        arrays = [each for each in event_logs if each.job.is_array and not each.is_broken]
        arrays = [each for each in arrays if not (each.job.status.is_final or _waits(each.job))]
        self._told = {each.job.id: self._told[each.job.id] for each in arrays if each.job.id in self._told}
        if not arrays:
            return [], exposure
        counts_of = await uow.jobs.count_tasks([each.job.id for each in arrays])
        begun: list[EventLog] = []
        for array in arrays:
            begun_before = [each for each in event_logs if each.job.array_id == array.job.id and not each.is_broken]
            tasks = [each for each in begun_before if not each.job.status.is_final]
            begun += await excuse_before(uow, begun_before, now)
            counts = counts_of[array.job.id]
            pairing = await read_pairing(uow, array.job)
            goes_on = False
            with contain(array):
                goes_on = self._goes_on(array, tasks, counts, pairing, now)
                counts = _as_resumed(counts, tasks)
                if goes_on:
                    more, chosen = self._choose(array.job, tasks, counts, exposure, market_of, now)
            if array.is_broken or not goes_on:
                continue
            own_inputs = takes_own_inputs(array.job.spec)
            free = [] if own_inputs else find_free(begun_before, busy, now, self._params)
            pays_none, taken = chosen.width.bound is Bound.BUDGET and not more, 0
            if free:
                idle = sum(_is_queued(each.job) for each in tasks)
                started, exposure = await self._reuse(
                    uow, array, free, begun_before, counts, pairing, exposure, market_of, now
                )
                begun += started
                taken = len(started) + idle - sum(_is_queued(each.job) for each in tasks)
                # What has ended in this tick leaves its place to that; a machine that is handed over later takes one.
                left = counts.active - as_ended(counts, begun_before).active
                more = max(more - max(taken - left, 0), 0)
            if room is not None:
                more = min(more, max(room - counts.waiting, 0))
            queued = [each for each in tasks if _is_queued(each.job)][:more]
            for each in queued:
                each.apply(e.StatusSet(JobStatus.PENDING, Reason.RETRIED, now))
            opened = await self._open(uow, array, more - len(queued), chosen, pairing, now)
            if array.is_broken:
                continue
            await self._tell(uow, array, chosen.width, counts, now)
            is_unpaid = pays_none or any(_is_unpaid(each.job) for each in tasks)
            if is_unpaid and not (opened or queued or taken or counts.active):
                _end_unpaid(array, now)
            exposure = with_tasks(exposure, array.job.id, [each.job.id for each in opened])
            begun += opened
            room = None if room is None else room - len(opened)
        return begun, exposure

    async def _reuse(
        self,
        uow: UnitOfWork,
        array: EventLog,
        free: Sequence[EventLog],
        begun: Sequence[EventLog],
        counts: TaskCounts,
        pairing: Pairing | None,
        exposure: Exposure,
        market_of: MarketOf,
        now: datetime,
    ) -> tuple[list[EventLog], Exposure]:
        """Hand the machines of tasks that have ended to those that wait for one, then to those that are to begin.

        The tasks that begin so, written down. A machine that gets none is released as that of any job that is over.
        """
        after = as_ended(counts, begun)
        left = exposure.purse_left(array.job, self._params)
        is_unpaid = left is not None and left[0] <= ZERO  # of a token that has ended nothing begins any more
        if is_unpaid or course_of(_spec_of(array.job), after)[0] is not Course.OPEN_MORE:
            return [], exposure
        tasks = [each for each in begun if not each.job.status.is_final]
        prices = [lease.burn_upper for each in free for lease in each.job.leases]
        more = 0
        with contain(array):
            more, chosen = self._choose(array.job, tasks, after, exposure, market_of, now, prices)
        if array.is_broken:
            return [], exposure
        waiting = list_waiting(tasks)
        free = [each for each in free if any(is_worth_keeping(lease, chosen.measure) for lease in each.job.leases)]
        more = min(more, max(len(free) - len(waiting), 0))
        queued = [each for each in tasks if _is_queued(each.job)][:more]
        opened = await self._open(uow, array, more - len(queued), chosen, pairing, now)
        for each in queued:
            each.apply(e.StatusSet(JobStatus.PENDING, Reason.RETRIED, now))
        exposure = with_tasks(exposure, array.job.id, [each.job.id for each in opened])
        for taken_by in hand_over(free, [*waiting, *queued, *opened], now):
            for lease in taken_by.job.leases:
                exposure = exposure.with_changed(lease)
        return opened, exposure

    def _goes_on(
        self, array: EventLog, tasks: Sequence[EventLog], counts: TaskCounts, pairing: Pairing | None, now: datetime
    ) -> bool:
        """Whether tasks may begin; where they may not, what has to be done to those that have begun is done."""
        job = array.job
        spec = _spec_of(job)
        if _follow_owner(array, tasks, counts, now):
            return False
        if job.status is JobStatus.PENDING and counts.begun:
            _resume(array, tasks, now)
        barred = 0 if pairing is None else pairing.count_barred(spec.count)
        course, status, reason = course_of(spec, counts, barred)
        match course:
            case Course.ENDED:
                over = ("succeeded", counts.succeeded), ("failed", counts.failed), ("cancelled", counts.cancelled)
                numbers = (*over, ("count", spec.count), ("spent", job.spent))
                array.apply(e.StatusSet(status, reason, now, numbers))
            case Course.FINISH_ENOUGH:
                idle = [each for each in tasks if not each.job.launches or each.job.status is JobStatus.PARKED]
                _cancel(idle, Reason.ENOUGH_SUCCEEDED, now)
            case Course.END_ALL:
                _cancel(tasks, reason, now)
        return course is Course.OPEN_MORE

    def _choose(
        self,
        job: Job,
        tasks: Sequence[EventLog],
        counts: TaskCounts,
        exposure: Exposure,
        market_of: MarketOf,
        now: datetime,
        free: Sequence[Decimal] = (),
    ) -> tuple[int, Chosen]:
        """How many tasks may begin now, and what that was reckoned of. ``free``: $/h of machines that wait for one."""
        leases = [lease for each in tasks for lease in each.job.leases if lease.is_wanted]
        purse = exposure.array_purses.get(job.id)
        budget = None if purse is None else purse.left_for(job, exposure.leases, self._params)
        queued = sum(_is_queued(each.job) for each in tasks)
        chosen = width_now(
            job, counts, leases, market_of(job, exposure), now, self._params, free=free, budget=budget, queued=queued
        )
        # What goes on by itself keeps its place: with another task in it more would run then than the owner allows.
        waiting = sum(waits_for_money(each.job) for each in tasks)
        return max(chosen.width.tasks - counts.active - waiting, 0), chosen

    async def _open(
        self, uow: UnitOfWork, array: EventLog, more: int, chosen: Chosen, pairing: Pairing | None, now: datetime
    ) -> list[EventLog]:
        job = array.job
        spec = _spec_of(job)
        if more <= 0:
            return []
        taken = set(await uow.jobs.list_task_numbers(job.id))
        numbers = [task for task in range(spec.count) if task not in taken]
        numbers = [task for task in numbers if pairing is None or pairing.may_begin(task)][:more]
        table = await find_table(uow, job)
        unbegun = spec.count - len(taken)
        due = job.spec.deadline
        if due is not None:
            due = due_of_task(unbegun, chosen.width.tasks, chosen.measure, due, now)
        made: list[Job] = []
        with contain(array):
            rows = None if table is None else rows_of(table)
            partners = {number: {} if pairing is None else pairing.partners(number) for number in numbers}
            made = [task_of(job, number, rows, due, self._ids.new(), now, partners[number]) for number in numbers]
        if array.is_broken:
            return []
        await uow.jobs.save_all(made)
        await uow.events.add(begin_record(each, now) for each in made)
        if job.status is JobStatus.PENDING:
            array.apply(e.StatusSet(JobStatus.RUNNING, Reason.TASKS_OPEN, now))
        return [EventLog(each) for each in made]

    async def _tell(self, uow: UnitOfWork, array: EventLog, width: Width, counts: TaskCounts, now: datetime) -> None:
        """A decision of the array's own, where the width or what bounds it is another than before."""
        told = width.tasks, width.bound
        if self._told.get(array.job.id) == told or array.is_broken:
            return
        self._told[array.job.id] = told
        number = array.job.decisions + 1
        note = width.note(counts, _spec_of(array.job))
        await uow.decisions.add(DecisionRecord(f"{array.job.id}-{number}", array.job.id, now, (), (), (note,)))
        array.job = replace(array.job, decisions=number)


def task_of(
    job: Job,
    task: int,
    rows: Sequence[tuple[tuple[str, str], ...]] | None,
    due: datetime | None,
    id: str,
    now: datetime,
    partners: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    """Task ``task`` of the array, as it begins. ``rows``: of the table that came with it; ``partners``: by array that
    is followed, the task of this number there."""
    spec = spec_of_task(job.spec, task, rows, due, partners)
    return Job(
        id,
        spec,
        JobStatus.PENDING,
        Reason.WAITING_FOR_JOBS if spec.after else Reason.SUBMITTED,
        now,
        owner=job.owner,
        code=job.code,
        array_id=job.id,
        task=task,
        schedule_id=job.schedule_id,  # what it spends counts there
    )


def spec_of_task(
    spec: JobSpec,
    task: int,
    rows: Sequence[tuple[tuple[str, str], ...]] | None,
    due: datetime | None,
    partners: Mapping[str, str] = MappingProxyType({}),
) -> JobSpec:
    """Budget and most an hour are the array's alone; of notices there is one, at the end of all.

    It waits for those of ``partners`` that leave it something: whether they have, the store is asked.
    """
    array = spec.array
    assert array is not None, "of an array"
    own = rows[task] if rows is not None else combine(array.axes, task)
    numbers = (TASK_VARIABLE, str(task)), (TASKS_VARIABLE, str(array.count))
    takes_from = [left.job for left in left_inputs(spec.inputs) if left.job in partners]
    return replace(
        spec,
        array=None,
        name=task_name(spec.name, task),
        env=(*spec.env, *own, *numbers),
        inputs=with_ids(spec.inputs, partners),
        after=tuple(After(partners[array_id]) for array_id in dict.fromkeys(takes_from)),
        due_within=None,
        deadline=due,
        budget=None,
        max_rate=None,
        notify=(),
    )


def begin_record(task: Job, now: datetime) -> EventRecord:
    return EventRecord(now, "job.submitted", task.id, None, (("name", task.spec.name),))


async def find_table(uow: UnitOfWork, array: Job) -> str | None:
    """The text of the table that came with it, or with its schedule. None if its job file names none."""
    if not _spec_of(array).source:
        return None
    if array.schedule_id is not None:
        return await uow.schedules.find_table(array.schedule_id) or ""
    return await uow.jobs.find_table(array.id) or ""


@lru_cache(8)
def rows_of(text: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    return read_table(text)


def _is_queued(task: Job) -> bool:
    """It restarts when there is a place for it."""
    return task.status is JobStatus.PARKED and task.reason is Reason.RETRIED


def _waits(job: Job) -> bool:
    return job.waits_for_jobs and job.status.wants_capacity


def _spec_of(job: Job) -> ArraySpec:
    assert job.spec.array is not None, "of an array"
    return job.spec.array


def _follow_owner(array: EventLog, tasks: Sequence[EventLog], counts: TaskCounts, now: datetime) -> bool:
    """Cancel or stop the tasks of an array that is to end or to be parked, and say whether it is."""
    job = array.job
    match job.status:
        case JobStatus.CANCELLING:
            _cancel(tasks, job.reason, now)
            if not counts.open:
                array.apply(e.StatusSet(JobStatus.CANCELLED, job.reason, now))
        case JobStatus.STOPPING:
            for each in tasks:
                if each.job.status.wants_capacity:
                    each.apply(e.StatusSet(JobStatus.STOPPING, job.reason, now))
            if counts.open == counts.parked:
                array.apply(e.StatusSet(JobStatus.PARKED, job.reason, now))
        case JobStatus.PARKED:
            if job.reason is Reason.BUDGET_EXHAUSTED and any(each.job.status.wants_capacity for each in tasks):
                array.apply(e.StatusSet(JobStatus.RUNNING, Reason.TASKS_OPEN, now))  # a bill gave it money back
        case _:
            return False
    return True


def _cancel(tasks: Sequence[EventLog], reason: Reason, now: datetime) -> None:
    for each in tasks:
        if each.job.status is not JobStatus.CANCELLING:
            each.apply(e.StatusSet(JobStatus.CANCELLING, reason, now))


def _resume(array: EventLog, tasks: Sequence[EventLog], now: datetime) -> None:
    """The array goes on, and the tasks that were parked with it."""
    for each in tasks:
        if each.job.status is JobStatus.PARKED and each.job.reason in _PARKED_WITH_ARRAY:
            each.apply(e.StatusSet(JobStatus.PENDING, Reason.SUBMITTED, now))
    array.apply(e.StatusSet(JobStatus.RUNNING, Reason.TASKS_OPEN, now))


def _as_resumed(counts: TaskCounts, tasks: Sequence[EventLog]) -> TaskCounts:
    """``counts``, as the ledger has them, with the tasks resumed since: they hold their places again."""
    resumed = sum(each.original.status is JobStatus.PARKED and each.job.status.wants_capacity for each in tasks)
    return counts._replace(parked=counts.parked - resumed, waiting=counts.waiting + resumed)


def _is_unpaid(task: Job) -> bool:
    return task.status is JobStatus.PARKED and task.reason is Reason.BUDGET_EXHAUSTED


def _end_unpaid(array: EventLog, now: datetime) -> None:
    """What the budget has left pays for no task more."""
    is_cancelled = array.job.spec.cancel_when_exhausted
    status = JobStatus.CANCELLING if is_cancelled else JobStatus.PARKED
    array.apply(e.StatusSet(status, Reason.BUDGET_EXHAUSTED, now))
