"""Which jobs that wait for others may begin, and which never will: by what the ledger says of those others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from graphlib import TopologicalSorter

from autopilot.domain import events as e
from autopilot.domain.after import After
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.ports.store import UnitOfWork
from autopilot.ports.store.jobs import JobTitle


async def judge_waiting(uow: UnitOfWork, event_logs: Sequence[EventLog], now: datetime) -> None:
    """Let those begin whose predecessors have ended as asked; fail those of which one has ended otherwise.

    ``event_logs``: of all open jobs, as this transaction has read them. Only an end that an earlier one has committed
    counts: what this tick finds may yet be dropped with its job. A job that fails by this takes those that wait for it
    along, down the line. The ledger is asked where a predecessor is not open any more.
    """
    waiting = {each.job.id: each for each in event_logs if each.job.waits_for_jobs and not each.is_broken}
    if not waiting:
        return
    known = {each.original.id: JobTitle.of(each.original) for each in event_logs}
    named = {after.job for each in waiting.values() for after in each.job.spec.after}
    if over := named - known.keys():
        known |= await uow.jobs.list_titles(over)
    order = TopologicalSorter({id: [after.job for after in each.job.spec.after] for id, each in waiting.items()})
    for job_id in order.static_order():
        if job_id not in waiting:
            continue
        event_log = waiting[job_id]
        event = judge(event_log.job, known, now)
        if event is not None:
            event_log.apply(event)
        if isinstance(event, e.StatusSet):
            known[job_id] = JobTitle.of(event_log.job)


def judge(job: Job, known: Mapping[str, JobTitle], now: datetime) -> e.PredecessorsEnded | e.StatusSet | None:
    """What the ends of its predecessors mean for a job that waits; None: it goes on waiting. ``known``: by id."""
    wrong = ended_otherwise(job, known)
    if wrong is not None:
        title = known.get(wrong.job)
        numbers = (("job", title.name if title else wrong.job), ("ended", title.status if title else None))
        return e.StatusSet(JobStatus.FAILED, Reason.DEPENDENCY_FAILED, now, numbers)
    titles = [known[after.job] for after in job.spec.after]
    if not all(title.status.is_final for title in titles):
        return None
    ended_at = max(title.finished_at or job.submitted_at for title in titles)
    return e.PredecessorsEnded(max(ended_at, job.submitted_at), now)


def ended_otherwise(job: Job, known: Mapping[str, JobTitle]) -> After | None:
    """The first of its predecessors that is over and not as it asks, or that the ledger does not know."""
    for after in job.spec.after:
        title = known.get(after.job)
        if title is None or (title.status.is_final and not after.is_met_by(title.status is JobStatus.SUCCEEDED)):
            return after
    return None
