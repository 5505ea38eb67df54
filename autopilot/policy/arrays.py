"""What the ends of its tasks mean for an array, by what the ledger has of them."""

from __future__ import annotations

from enum import StrEnum

from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason

FIRST_FAILURES = 10
"""So many failed tasks, and none that has succeeded, end an array whose owner set no bound: its command is wrong, and
the others would pay for the same failure."""


class Course(StrEnum):
    """How an array goes on."""

    OPEN_MORE = "open_more"
    FINISH_ENOUGH = "finish_enough"
    """So many have succeeded that the others need not: those that run are finished."""
    END_ALL = "end_all"
    """So many have failed that the others are cancelled."""
    ENDED = "ended"


def course_of(array: ArraySpec, counts: TaskCounts, barred: int = 0) -> tuple[Course, JobStatus, Reason]:
    """How it goes on, and the status and the reason in which it ends by that.

    ``counts``: as an earlier transaction has committed them, so that no end counts that may yet be dropped. ``barred``:
    tasks that never begin, because what they follow has ended without success.
    """
    if counts.succeeded >= array.needed:
        course = Course.ENDED if not counts.open else Course.FINISH_ENOUGH
        return course, JobStatus.SUCCEEDED, Reason.COMPLETED
    most = array.max_failures
    if most is None and not counts.succeeded:
        most = FIRST_FAILURES
    if most is not None and counts.failed + counts.excused >= most:
        course = Course.ENDED if not counts.open else Course.END_ALL
        return course, JobStatus.FAILED, Reason.TOO_MANY_FAILURES
    is_through = not counts.open and counts.begun + barred >= array.count
    reason = Reason.DEPENDENCY_FAILED if barred else Reason.TASKS_FAILED
    return Course.ENDED if is_through else Course.OPEN_MORE, JobStatus.FAILED, reason
