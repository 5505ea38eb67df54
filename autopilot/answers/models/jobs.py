"""What is asked about jobs, and small answers to it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, RootModel

from autopilot.answers.jobs import Event, Job
from autopilot.answers.models.base import Answer, Asked, Query, Share
from autopilot.domain.array import MOST_TABLE_BYTES
from autopilot.domain.code import MOST_BYTES
from autopilot.domain.outlook import LEAST_PROBABILITY

MOST_EVENTS = 10**12
LONGEST_JOB_FILE = 256 * 1024
"""Characters: it is read while everybody waits."""
MOST_OF_SET = 50
"""Job files of one submit: each is planned before the answer."""


class SentCode(Asked):
    """How a submit refers to code that was sent before."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    files: int = Field(ge=1, le=MOST_BYTES)
    size_bytes: int = Field(ge=0, le=MOST_BYTES)
    commit: str = Field(pattern=r"^([0-9a-f]{40,64})?$")
    """Empty if it is not known."""
    is_dirty: bool


class SubmitBody(Asked):
    toml: str = Field(max_length=LONGEST_JOB_FILE)
    """The job file."""
    source: str = ""
    """Its name, for messages."""
    dry_run: bool = False
    min_probability: Share = LEAST_PROBABILITY
    """Refuse a job that is less likely to finish in time and within its budget; 0 accepts any."""
    again: bool = False
    """Submit a second identical job."""
    plan: str = ""
    """The id of the confirmed plan, if the token needs one."""
    code: SentCode | None = None
    table: str | None = Field(default=None, max_length=MOST_TABLE_BYTES)
    """The text of the file that ``[array] from`` names: comma-separated values, the first line names the variables."""


class SetPart(Asked):
    """One job file of a set; its keys are those of a submit."""

    toml: str = Field(max_length=LONGEST_JOB_FILE)
    source: str = ""
    code: SentCode | None = None
    table: str | None = Field(default=None, max_length=MOST_TABLE_BYTES)


class SubmitSetBody(Asked):
    """Job files that may name one another in ``after``: all are accepted, or none."""

    jobs: list[SetPart] = Field(min_length=1, max_length=MOST_OF_SET)
    dry_run: bool = False
    min_probability: Share = LEAST_PROBABILITY
    again: bool = False
    """Submit jobs that are identical to open ones."""
    plan: str = ""
    """As for a submit."""


class ChangeBody(Asked):
    """Values as in a job file; ``none`` removes a limit."""

    budget: str | None = None
    max_price: str | None = None
    max_hourly: str | None = None
    max_rate: str | None = None
    deadline: str | None = None
    """An instant, a span from now (``6h``), or an extension (``+6h``)."""
    parallel: str | None = None
    """For an array: the maximum number of tasks at once."""
    plan: str = ""
    """As for a submit."""
    min_probability: Share = LEAST_PROBABILITY


class ResumeBody(Asked):
    from_checkpoint: str = ""
    """A number, or ``LEASE.NUMBER`` if two machines wrote one with that number."""
    from_store: bool = False
    """Resume from the store, after the ledger was restored from an older copy."""
    dry_run: bool = False
    """With ``from_store``: change nothing, and return its contents."""


class RetryBody(Asked):
    failed: bool = False
    """All failed tasks of the array in the path."""


class ExecBody(Asked):
    command: str
    timeout_s: int = 60
    """Real seconds, 600 at most."""


class ListQuery(Query):
    """Open jobs come oldest first, all jobs newest first."""

    all: bool = False
    """Finished jobs too."""
    limit: int = Field(default=500, ge=1, le=1000)
    after: str = ""
    """``next`` of the previous page."""
    since: str | None = None
    """Only jobs submitted since then: an instant, or an age."""
    owner: str = ""
    """Only jobs of this owner: a user's name, ``token:NAME``, ``proxy:NAME``, or a number."""
    fields: str = ""
    """Comma-separated field names: the answer has no others."""
    tasks: bool = False
    """Also list the open tasks of arrays, one by one."""
    array: str = ""
    """The started tasks of that array, in order, finished ones included; ``after``: a task's number."""


class LogsQuery(Query):
    after: str = ""
    """The key of the last chunk received."""
    tail: bool = False
    """Only the newest output."""


class WhyQuery(Query):
    limit: int = Field(default=20, ge=0)
    """Decisions, 1000 at most."""


class Chosen(RootModel[dict[str, Any]]):
    """With ``fields``: only those."""


class Jobs(Answer):
    jobs: list[Job] | list[Chosen] = Field(union_mode="left_to_right")
    next: str | None
    """Where the next page begins; null: this is the last one."""


class EventsQuery(Query):
    after: int = Field(default=0, ge=0, le=MOST_EVENTS)
    """The last sequence number received."""
    wait_s: int = Field(default=0, ge=0, le=MOST_EVENTS)
    """How long to wait for a first event, 60 at most."""
    since: str | None = None
    """Only events since then: an instant, or an age."""
    fields: str = ""
    """Comma-separated field names: the answer has no others."""


class Events(Answer):
    events: list[Event] | list[Chosen] = Field(union_mode="left_to_right")
    after: int
    """Pass it to the next call."""
