"""What a resume may ask for at once, and which jobs may go on from the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autopilot.answers.models.jobs import ResumeBody
from autopilot.api.from_store import check_wish, refuse_return
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobStatus
from tests.builders import a_job, a_lease


@pytest.mark.parametrize("wish", [ResumeBody(from_store=True, from_checkpoint="3"), ResumeBody(dry_run=True)])
def test_wishes_that_exclude_each_other_are_refused(wish: ResumeBody) -> None:
    with pytest.raises(UserError):
        check_wish(wish)


def test_the_others_are_not() -> None:
    check_wish(ResumeBody())
    check_wish(ResumeBody(from_checkpoint="3"))
    check_wish(ResumeBody(from_store=True, dry_run=True))


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_a_job_that_has_no_machine_and_wants_one_or_is_parked_may(status: JobStatus) -> None:
    job = replace(a_job(), status=status)
    if status in (JobStatus.PARKED, JobStatus.PENDING, JobStatus.RECOVERING):
        refuse_return(job)
        job = replace(job, leases=(a_lease(),))
    with pytest.raises(UserError, match="cannot resume from the store"):
        refuse_return(job)


def test_an_array_and_its_tasks_may_not() -> None:
    with pytest.raises(UserError):
        refuse_return(replace(a_job(), status=JobStatus.PARKED, array_id="array", task=3))
