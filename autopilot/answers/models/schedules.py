"""What is asked about schedules."""

from __future__ import annotations

from pydantic import Field

from autopilot.answers.models.base import Asked, Query, Share
from autopilot.answers.models.jobs import LONGEST_JOB_FILE, SentCode
from autopilot.domain.array import MOST_TABLE_BYTES
from autopilot.domain.outlook import LEAST_PROBABILITY


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
