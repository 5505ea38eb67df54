"""How an array goes on and ends by what its tasks have come to."""

from __future__ import annotations

import pytest

from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.policy.arrays import FIRST_FAILURES, Course, course_of


@pytest.mark.parametrize(
    ("max_failures", "counts", "course"),
    [
        (None, TaskCounts(open=2, running=2, failed=FIRST_FAILURES - 1), Course.OPEN_MORE),
        (None, TaskCounts(open=2, running=2, failed=FIRST_FAILURES), Course.END_ALL),
        (None, TaskCounts(open=2, running=2, failed=FIRST_FAILURES - 3, excused=3), Course.END_ALL),
        (None, TaskCounts(failed=FIRST_FAILURES), Course.ENDED),
        (None, TaskCounts(open=2, running=2, succeeded=1, failed=60), Course.OPEN_MORE),
        (3, TaskCounts(open=2, running=2, succeeded=50, failed=2, excused=1), Course.END_ALL),
        (20, TaskCounts(open=2, running=2, failed=19), Course.OPEN_MORE),
    ],
)
def test_failures_end_it_at_the_bound_or_at_ten_while_none_has_succeeded(
    max_failures: int | None, counts: TaskCounts, course: Course
) -> None:
    found, status, reason = course_of(ArraySpec(100, max_failures=max_failures), counts)
    assert found is course
    if course in (Course.END_ALL, Course.ENDED):
        assert (status, reason) == (JobStatus.FAILED, Reason.TOO_MANY_FAILURES)
