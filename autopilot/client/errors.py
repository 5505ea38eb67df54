"""What can go wrong for a client. Standard library only: the command line starts with these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from autopilot.answers.jobs import Job


class DaemonError(UserError):
    """A daemon refused, or none answered."""


class ApiError(DaemonError):
    """The daemon refused. ``reason`` is a code to go by (docs/reference/api.md), ``status`` that of HTTP."""

    def __init__(self, status: int, reason: str, message: str, *, hint: str = "", job: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
        self.job = job
        """With ``same_job_open``: the id of that job."""


class UnreadableAnswer(ApiError):
    """What answered is no daemon of this version, or no daemon at all. Its reason is ``unknown``."""


class CodeChanged(DaemonError):
    """What was sent is not what was packed: the daemon keeps none of it."""


class Unreachable(DaemonError):
    """No daemon answers."""


class AnswerLost(Unreachable):
    """The daemon may have done what it was asked to, or not."""


class TimedOut(AnswerLost):
    """It did not answer in time."""


class NotRunning(Unreachable):
    """Nothing listens there: what was asked was not done."""


class NoAccess(Unreachable):
    """The user may not open the socket, or the certificate is not one that this machine trusts."""


class JobEnded(UserError):
    """A job that was waited for did not succeed: it has failed, was cancelled, or is parked."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.name} ({job.id}) is {job.status}: {job.reason}")
        self.job = job
