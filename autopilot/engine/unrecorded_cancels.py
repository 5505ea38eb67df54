"""Cancels that the ledger could not take: they hold at once, and are recorded as soon as it can be written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from autopilot.domain import events as e
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine.event_log import EventLog


class UnrecordedCancels:
    def __init__(self) -> None:
        self._ids: set[str] = set()

    def add(self, job_id: str) -> None:
        self._ids.add(job_id)

    def apply(self, event_log: EventLog, now: datetime) -> None:
        """The cancel as it would have been recorded. What has ended or was cancelled since stays as it is."""
        job = event_log.job
        if self._is_meant(job) and not _is_ending(job):
            event_log.apply(e.StatusSet(JobStatus.CANCELLING, Reason.USER_CANCELLED, now))
        elif self._is_meant(job) and job.on_hold is not None:
            event_log.apply(e.ReleaseRequested(job.on_hold.id, Reason.USER_RELEASED, now))

    def _is_meant(self, job: Job) -> bool:
        """It was cancelled, or the array of which it is a task."""
        return job.id in self._ids or job.array_id in self._ids

    def let_go(self, jobs: Iterable[Job], now: datetime) -> tuple[Job, ...]:
        """These jobs as they are, the machines of those that were cancelled to be destroyed."""
        return tuple(self._release(job, now) if self._is_meant(job) else job for job in jobs)

    def forget_recorded(self, jobs: Iterable[Job]) -> None:
        """``jobs``: all that are open, as they were just committed."""
        self._ids &= {job.id for job in jobs if not _is_ending(job) or job.on_hold is not None}

    def _release(self, job: Job, now: datetime) -> Job:
        event_log = EventLog(job)
        self.apply(event_log, now)
        for lease in job.leases:
            if lease.is_wanted and lease.instance_id is not None:
                event_log.apply(e.ReleaseRequested(lease.id, Reason.USER_CANCELLED, now))
        return event_log.job


def _is_ending(job: Job) -> bool:
    return job.status.is_final or job.status is JobStatus.CANCELLING
