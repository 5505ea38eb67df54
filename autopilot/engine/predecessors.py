"""Which jobs that wait for others may begin, and which never will: by what the ledger says of those others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from types import MappingProxyType

import structlog

from autopilot.domain import events as e
from autopilot.domain.after import After, paired_with, waited_for
from autopilot.domain.inputs import left_inputs
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog
from autopilot.mailbox.checkpoints import kept_outputs
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.store import UnitOfWork
from autopilot.ports.store.jobs import JobTitle

log = structlog.get_logger(__name__)


LEFT_NOTHING = "over without outputs"
"""How a predecessor has ended that succeeded and left nothing that could be verified."""


async def look_for_outputs(blobs: BlobStore, jobs: Sequence[Job]) -> dict[str, bool]:
    """Of the predecessors that are over and whose outputs are waited for: whether the store has them.

    ``jobs``: all that are open, or over with machines still to be given back. One that the store cannot tell of now is
    left out: the next tick asks again.
    """
    going_on = {job.id for job in jobs if not job.status.is_final}
    waiting = (
        left.job
        for job in jobs
        if job.waits_for_jobs
        for left in left_inputs(job.spec.inputs, but=paired_with(job.spec.after))
    )
    found: dict[str, bool] = {}
    for job_id in sorted(set(waiting) - going_on):
        try:
            found[job_id] = await kept_outputs(blobs, job_id) is not None
        except BlobUnavailable as problem:
            log.warning("outputs.unread", job=job_id, reason=str(problem))
    return found


async def judge_waiting(
    uow: UnitOfWork, event_logs: Sequence[EventLog], now: datetime, left: Mapping[str, bool] = MappingProxyType({})
) -> None:
    """Let those begin whose predecessors have ended as asked; fail those of which one has ended otherwise.

    ``event_logs``: of all open jobs, as this transaction has read them. Only an end that an earlier one has committed
    counts: what this tick finds may yet be dropped with its job. A job that fails by this takes those that wait for it
    along, down the line. The ledger is asked where a predecessor is not open any more. ``left``: of predecessors whose
    outputs are taken, whether the store has any (``look_for_outputs``).
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
        event = judge(event_log.job, known, now, left)
        if event is not None:
            event_log.apply(event)
        if isinstance(event, e.StatusSet):
            known[job_id] = JobTitle.of(event_log.job)


def judge(
    job: Job, known: Mapping[str, JobTitle], now: datetime, left: Mapping[str, bool] = MappingProxyType({})
) -> e.PredecessorsEnded | e.StatusSet | None:
    """What the ends of its predecessors mean for a job that waits; None: it goes on waiting. ``known``, ``left``: by
    id; what ``left`` does not tell is waited for."""
    wrong = ended_otherwise(job, known)
    if wrong is not None:
        title = known.get(wrong.job)
        return _fail(title.name if title else wrong.job, title.status if title else None, now)
    titles = [known[after.job] for after in waited_for(job.spec.after)]
    if not all(title.status.is_final for title in titles):
        return None
    for each in left_inputs(job.spec.inputs, but=paired_with(job.spec.after)):
        has_left = left.get(each.job)
        if has_left is None:
            return None
        if not has_left:
            return _fail(known[each.job].name, LEFT_NOTHING, now)
    ended_at = max(title.finished_at or job.submitted_at for title in titles)
    return e.PredecessorsEnded(max(ended_at, job.submitted_at), now)


def _fail(name: str, ended: str | None, now: datetime) -> e.StatusSet:
    """``ended``: how the predecessor of that name did; None: the ledger does not know it."""
    return e.StatusSet(JobStatus.FAILED, Reason.DEPENDENCY_FAILED, now, (("job", name), ("ended", ended)))


def ended_otherwise(job: Job, known: Mapping[str, JobTitle]) -> After | None:
    """The first of its predecessors that is over and not as it asks, or that the ledger does not know."""
    for after in job.spec.after:
        title = known.get(after.job)
        if title is None or (title.status.is_final and not after.is_met_by(title.status is JobStatus.SUCCEEDED)):
            return after
    return None
