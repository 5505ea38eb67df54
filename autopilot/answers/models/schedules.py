"""Schedules: job files that are submitted again and again."""

from __future__ import annotations

from pydantic import Field

from autopilot.answers.models.base import Answer, Asked, Query, Share
from autopilot.answers.models.jobs import LONGEST_JOB_FILE, SentCode
from autopilot.answers.models.plans import Plan
from autopilot.answers.scalars import Instant, Money
from autopilot.domain.array import MOST_TABLE_BYTES
from autopilot.domain.cadence import Overlap
from autopilot.domain.job import JobStatus
from autopilot.domain.outlook import LEAST_PROBABILITY
from autopilot.domain.schedule import ScheduleStatus


class ScheduleBody(Asked):
    """A job file with ``[schedule]``."""

    toml: str = Field(max_length=LONGEST_JOB_FILE)
    source: str = ""
    """Its name, for messages."""
    dry_run: bool = False
    min_probability: Share = LEAST_PROBABILITY
    """As for a submit, for a firing due now."""
    plan: str = ""
    """The id of the confirmed plan, if the token needs one."""
    code: SentCode | None = None
    table: str | None = Field(default=None, max_length=MOST_TABLE_BYTES)
    """The text of the table that ``[array] from`` names."""


class SchedulesQuery(Query):
    all: bool = False
    """Ended ones too: the newest 200."""


class Firing(Answer):
    """A job that a schedule has created."""

    job: str
    """Its id."""
    due_at: Instant
    status: JobStatus | None


class Schedule(Answer):
    id: str
    name: str
    owner: int
    """The uid of the submitter; a negative number identifies a token."""
    status: ScheduleStatus
    reason: str
    created_at: Instant
    ended_at: Instant | None
    cron: str
    zone: str
    overlap: Overlap
    catch_up: bool
    until: Instant | None
    count: int | None
    """Number of firings."""
    next: list[Instant]
    """The next three due instants; none while it is paused."""
    fired: int
    """Jobs that it has created."""
    last: Firing | None
    left_out: int
    """Firings that created no job."""
    left_out_at: Instant | None
    """When the newest of them was due."""
    left_out_reason: str | None
    job_budget: Money | None
    """Budget of each firing."""
    budget: Money | None
    """Over all firings."""
    is_monthly: bool
    """Whether it is for each UTC month; else it is for all firings."""
    posted: Money
    """Posted for all firings: in this month for a monthly budget, else in total."""
    held: Money
    """For machines that are gone, until their bills are final."""


class Scheduled(Answer):
    """``schedule`` is null for a dry run."""

    schedule: Schedule | None
    next: list[Instant]
    """The first three due instants."""
    zone: str
    plan: Plan
    """Plan of a firing due now."""


class ScheduleAnswer(Answer):
    schedule: Schedule


class Schedules(Answer):
    schedules: list[Schedule]
    """Oldest first; with ``all`` newest first."""
