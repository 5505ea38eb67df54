"""Schedules: job files that are submitted again and again."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.answers.plans import Plan
from autopilot.answers.scalars import Described, Instant, Money
from autopilot.domain.cadence import Overlap
from autopilot.domain.job import JobStatus
from autopilot.domain.schedule import ScheduleStatus


@dataclass(frozen=True, kw_only=True)
class Firing(Described):
    """A job that a schedule has made."""

    job: str
    """Its id."""
    due_at: Instant
    status: JobStatus | None


@dataclass(frozen=True, kw_only=True)
class Schedule(Described):
    id: str
    name: str
    owner: int
    """The uid of whoever submitted it; below zero a token, by its number."""
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
    """Firings in all."""
    next: list[Instant]
    """The next three that are due; none while it is paused."""
    fired: int
    """Jobs that it has made."""
    last: Firing | None
    left_out: int
    """Firings of which no job was made."""
    left_out_at: Instant | None
    """When the newest of them was due."""
    left_out_reason: str | None
    job_budget: Money | None
    """Of each firing."""
    budget: Money | None
    """Over all firings."""
    is_monthly: bool
    """That is for each UTC month; else for all firings ever."""
    posted: Money
    """Of all firings, in the ledger: of the month, or of ever."""
    held: Money
    """For machines that are gone, until their bills are believed."""


@dataclass(frozen=True, kw_only=True)
class Scheduled(Described):
    """``schedule`` is null for a dry run."""

    schedule: Schedule | None
    next: list[Instant]
    """The first three that are due."""
    zone: str
    plan: Plan
    """Of a firing that were due now."""


@dataclass(frozen=True, kw_only=True)
class ScheduleAnswer(Described):
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Schedules(Described):
    schedules: list[Schedule]
    """Oldest first; with ``all`` newest first."""
