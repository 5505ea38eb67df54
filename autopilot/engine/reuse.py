"""Reused machines: a task of an array that has ended leaves its machine to the next one, which needs no boot.

All of it in the transaction in which the exit is taken in: there is no moment at which two tasks have the machine, or
none that the ledger would know of. What is dropped of one of the two is dropped of both (``EventLog.tie``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from autopilot.domain import events as e
from autopilot.domain.array import TaskCounts
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.params import Params
from autopilot.engine.event_log import EventLog
from autopilot.policy.decide import RUNS_PER_MACHINE
from autopilot.policy.migration import is_given_up, last_save
from autopilot.ports.store import UnitOfWork


def find_free(event_logs: Iterable[EventLog], busy: Collection[str], now: datetime, params: Params) -> list[EventLog]:
    """Tasks that have ended and whose machines may take another one; the cheapest machine first.

    ``busy``: leases with a call on its way, whose outcome is recorded with the task that has them now.
    """
    free = [
        each
        for each in event_logs
        if not each.is_broken
        and each.job.status in (JobStatus.SUCCEEDED, JobStatus.FAILED)
        and (main := each.job.main) is not None
        and main.id not in busy
        and _may_take_next(each.job, main, now, params)
    ]
    return sorted(free, key=lambda each: _main(each).burn_upper)


def _may_take_next(job: Job, main: Lease, now: datetime, params: Params) -> bool:
    agent = main.agent
    if agent.exit_code is None or not agent.can_take_next or agent.failed_by_host or agent.failures >= RUNS_PER_MACHINE:
        return False
    if job.spec.hold is not None and job.status is JobStatus.FAILED:
        return False  # its owner may want to look into it
    is_there = main.state is LeaseState.ACTIVE and main.observed.running_since is not None
    is_held = is_there and main.observed.offline_since is None and main.orders.role is Role.RUN
    return is_held and now < last_save(main, params) and not is_given_up(main, now, params)


def as_ended(counts: TaskCounts, tasks: Iterable[EventLog]) -> TaskCounts:
    """``counts``, as of the transaction before, with the tasks that have ended in this one."""
    ended = [each for each in tasks if each.job.status.is_final and not each.original.status.is_final]
    succeeded = sum(each.job.status is JobStatus.SUCCEEDED for each in ended)
    failed = sum(each.job.status is JobStatus.FAILED for each in ended)
    return counts._replace(
        open=counts.open - len(ended),
        succeeded=counts.succeeded + succeeded,
        failed=counts.failed + failed,
        cancelled=counts.cancelled + len(ended) - succeeded - failed,
        work=counts.work + sum((each.job.work_done for each in ended if each.job.exit_code == 0), counts.work * 0),
    )


def list_waiting(tasks: Iterable[EventLog]) -> list[EventLog]:
    """Tasks that have begun and wait for a machine."""
    return [
        each
        for each in tasks
        if not each.is_broken and each.job.status.wants_capacity and each.job.main is None and each.job.next is None
    ]


def hand_over(free: Sequence[EventLog], takers: Sequence[EventLog], now: datetime) -> list[EventLog]:
    """Give the machines of ``free`` to ``takers``, one each, in their order; those that have one now."""
    taken: list[EventLog] = []
    for left_by in free:
        lease = _main(left_by)
        taken_by = next((each for each in takers if each not in taken and not _had(each.job, lease)), None)
        if taken_by is None:
            continue
        left_by.tie(taken_by)
        left_by.apply(e.LeaseHandedOver(lease.id, taken_by.job.task or 0, now))
        taken_by.apply(e.LeaseInherited(lease, now))
        taken.append(taken_by)
    return taken


def _had(job: Job, lease: Lease) -> bool:
    """What the task left in its mailbox there would be written over."""
    return any(use.job_id == job.id for use in lease.uses)


def _main(event_log: EventLog) -> Lease:
    main = event_log.job.main
    assert main is not None, "it has a machine"
    return main


async def excuse_before(uow: UnitOfWork, tasks: Iterable[EventLog], now: datetime) -> list[EventLog]:
    """Restart tasks that failed for good on a machine that has since failed the next task, too.

    ``tasks``: those of the array that are open or still have a machine. Returns those that were not among them.
    """
    known = {each.job.id: each for each in tasks}
    excused: list[EventLog] = []
    for each in known.values():
        main, before = each.job.main, each.original.main
        if main is None or before is None or not main.agent.is_blamed or before.agent.exit_code is not None:
            continue
        if not before.agent.failures or len(main.uses) < 2:
            continue
        before_id = main.uses[-2].job_id
        job = None if before_id in known else await uow.jobs.find(before_id)
        log = known.get(before_id) if job is None else EventLog(job)
        if log is None or log.job.status is not JobStatus.FAILED or log.job.excused or log.job.main is not None:
            continue
        log.apply(e.TaskExcused(now))
        each.tie(log)
        if job is not None:  # one that still has a machine on its way out is among the open ones
            excused.append(log)
    return excused
