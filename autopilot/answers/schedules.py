"""Schedules: job files that are submitted again and again."""

from __future__ import annotations

from autopilot.answers.plans import Plan
from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money
from autopilot.domain.cadence import Overlap
from autopilot.domain.job import JobStatus
from autopilot.domain.schedule import ScheduleStatus


@record(frozen=True, kw_only=True)
class Firing(Described):
    """A job that a schedule has created."""

    job: str
    """Its id."""
    due_at: Instant
    status: JobStatus | None


@record(frozen=True, kw_only=True)
class Schedule(Described):
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


@record(frozen=True, kw_only=True)
class Scheduled(Described):
    """``schedule`` is null for a dry run."""

    schedule: Schedule | None
    next: list[Instant]
    """The first three due instants."""
    zone: str
    plan: Plan
    """Plan of a firing due now."""


@record(frozen=True, kw_only=True)
class ScheduleAnswer(Described):
    schedule: Schedule


@record(frozen=True, kw_only=True)
class Schedules(Described):
    schedules: list[Schedule]
    """Oldest first; with ``all`` newest first."""
