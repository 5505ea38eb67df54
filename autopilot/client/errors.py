"""What can go wrong for a client."""

from __future__ import annotations

from autopilot.answers.models.base import Problem
from autopilot.answers.models.jobs import Job
from autopilot.domain.errors import UserError


class ApiError(UserError):
    """The daemon refused. ``reason`` is a code to go by (docs/reference/api.md), ``status`` that of HTTP."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail, hint=problem.hint)
        self.status = problem.status
        self.reason = problem.reason
        self.job = problem.job
        """With ``same_job_open``: the id of that job."""


class Unreachable(UserError):
    """No daemon answers."""


class JobEnded(UserError):
    """A job that was waited for did not succeed: it has failed, was cancelled, or is parked."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.name} ({job.id}) is {job.status}: {job.reason}")
        self.job = job
