"""Schedules: job files that are submitted again and again, each time as a job of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum

from autopilot.domain.cadence import Cadence
from autopilot.domain.code import NO_CODE, JobCode
from autopilot.domain.job import JobSpec

MOST_SCHEDULES = 50
"""Open schedules of one owner: each tick reads all of them."""


class ScheduleStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """By its owner: nothing is due while it is."""
    ENDED = "ended"


class ScheduleReason(StrEnum):
    """Why a schedule is in its state, or why a firing was left out."""

    SUBMITTED = "submitted"
    USER_PAUSED = "user_paused"
    USER_RESUMED = "user_resumed"
    USER_ENDED = "user_ended"
    UNTIL_REACHED = "until_reached"
    """Nothing is due any more."""
    COUNT_REACHED = "count_reached"
    TOKEN_ENDED = "token_ended"  # noqa: S105
    """The token was revoked or has expired."""
    OVERLAP = "overlap"
    """An earlier firing is not over, or with ``queue`` one waits already."""
    MISSED = "missed"
    """It was not checked when it was due."""
    TOO_MANY_JOBS = "too_many_jobs"
    NOT_ALLOWED = "not_allowed"
    """Its owner may submit no more, or use a secret no more that the job file names."""
    CONFIRM_FIRST = "confirm_first"
    """It may cost more than its owner may spend unasked, and no person has confirmed it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    id: str
    spec: JobSpec
    """Spec of each firing; ``spec.schedule`` says when. A deadline counts from when it is due (``due_within``)."""
    owner: int
    status: ScheduleStatus
    reason: ScheduleReason
    created_at: datetime
    looked_until: datetime
    """Due instants up to then are dealt with: fired, left out, or before the schedule."""
    fired: int = 0
    """Jobs that were made."""
    last_due: datetime | None = None
    """The newest due instant of which a job was made."""
    last_job: str | None = None
    """Its id."""
    left_out: int = 0
    """Firings of which no job was made."""
    left_out_at: datetime | None = None
    """When the newest of them was due."""
    left_out_reason: ScheduleReason | None = None
    ended_at: datetime | None = None
    is_confirmed: bool = False
    """A person has confirmed it: its firings need no confirmation."""
    code: JobCode = NO_CODE
    file_sha256: str = ""

    @property
    def cadence(self) -> Cadence:
        assert self.spec.schedule is not None, "a schedule has one"
        return self.spec.schedule

    def counts_from(self, now: datetime) -> date | None:
        """The first day whose spend counts against the budget over all firings; None: all of it."""
        return now.astimezone(UTC).date().replace(day=1) if self.cadence.is_monthly else None

    @property
    def budget(self) -> Decimal | None:
        return self.cadence.budget
