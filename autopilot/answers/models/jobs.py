"""What is asked about jobs, and small answers to it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, RootModel

from autopilot.answers.jobs import Event, Job, TakenCode
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
    """What a submit says of the code that was sent before."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    files: int = Field(ge=1, le=MOST_BYTES)
    size_bytes: int = Field(ge=0, le=MOST_BYTES)
    commit: str = Field(pattern=r"^([0-9a-f]{40,64})?$")
    """Empty where it is not known."""
    is_dirty: bool


class SubmitBody(Asked):
    toml: str = Field(max_length=LONGEST_JOB_FILE)
    """The job file."""
    source: str = ""
    """Its name, for messages."""
    dry_run: bool = False
    min_probability: Share = LEAST_PROBABILITY
    """A job that is less likely to be done in time and within its budget is refused; 0 accepts any."""
    again: bool = False
    """A second job of the same is meant."""
    plan: str = ""
    """The id of the plan that a person has confirmed, where the token asks for it."""
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
    """Job files that may name one another in ``after``. All of them are accepted, or none."""

    jobs: list[SetPart] = Field(min_length=1, max_length=MOST_OF_SET)
    dry_run: bool = False
    min_probability: Share = LEAST_PROBABILITY
    again: bool = False
    """Jobs that say the same as open ones are meant."""
    plan: str = ""
    """As of a submit."""


class ChangeBody(Asked):
    """Values as they are typed in a job file; ``none`` takes a limit away."""

    budget: str | None = None
    max_price: str | None = None
    max_hourly: str | None = None
    max_rate: str | None = None
    deadline: str | None = None
    """An instant, a span from now on (``6h``), or ``+6h``: so much later than it is."""
    parallel: str | None = None
    """Of an array: tasks at once, at the most."""
    plan: str = ""
    """As of a submit."""
    min_probability: Share = LEAST_PROBABILITY


class ResumeBody(Asked):
    from_checkpoint: str = ""
    """A number, or ``LEASE.NUMBER`` where two machines wrote one."""
    from_store: bool = False
    """Go on from what the store holds: the ledger was put back from an older copy."""
    dry_run: bool = False
    """With ``from_store``: change nothing, and tell what it holds."""


class RetryBody(Asked):
    failed: bool = False
    """All tasks that have failed, of the array that the address names."""


class ExecBody(Asked):
    command: str
    timeout_s: int = 60
    """Real seconds, 600 at most."""


class NoBody(Asked):
    """Nothing is to be said."""


class ListQuery(Query):
    """Open jobs come oldest first, all jobs newest first."""

    all: bool = False
    """Finished jobs too."""
    limit: int = Field(default=500, ge=1, le=1000)
    after: str = ""
    """What the page before named as ``next``."""
    since: str | None = None
    """Submitted then or later: an instant, or how long ago."""
    owner: str = ""
    """Of that owner alone: a user's name, ``token:NAME``, ``proxy:NAME``, or a number."""
    fields: str = ""
    """Names of fields, with commas between: the answer has no others."""
    tasks: bool = False
    """Open tasks of arrays as well, each by itself."""
    array: str = ""
    """The tasks of that array that have begun, in their order, finished ones included; ``after``: a task's number."""


class LogsQuery(Query):
    after: str = ""
    """The key of the last chunk that was seen."""
    tail: bool = False
    """The newest output alone."""


class WhyQuery(Query):
    limit: int = Field(default=20, ge=0)
    """Decisions, 1000 at most."""


class Chosen(RootModel[dict[str, Any]]):
    """With ``fields``: those alone."""


class Jobs(Answer):
    jobs: list[Job] | list[Chosen] = Field(union_mode="left_to_right")
    next: str | None
    """Where the next page begins; null: this is the last one."""


class OutputPart(Answer):
    key: str
    size: int
    sha256: str
    url: str


class Outputs(Answer):
    name: str
    parts: list[OutputPart]


class CodeOfJob(Answer):
    name: str
    code: TakenCode
    urls: list[str]
    """Of the index and of each part."""


class ExecAnswer(Answer):
    exit_code: int
    output: str
    is_cut: bool
    ended: str
    """``exited``, ``timed_out`` (124) or ``stopped`` (137)."""


class SshAnswer(Answer):
    host: str
    port: int
    user: str
    lease: str


class CodeThere(Answer):
    there: bool
    missing: list[int] | None
    """Numbers of parts that are yet to come; null: its index is yet to come."""


class CodeBegun(Answer):
    missing: list[int]


class EventsQuery(Query):
    after: int = Field(default=0, ge=0, le=MOST_EVENTS)
    """The last sequence number that is known."""
    wait_s: int = Field(default=0, ge=0, le=MOST_EVENTS)
    """How long to wait for a first event, 60 at most."""
    since: str | None = None
    """Those that happened then or later: an instant, or how long ago."""
    fields: str = ""
    """Names of fields, with commas between: the answer has no others."""


class Events(Answer):
    events: list[Event] | list[Chosen] = Field(union_mode="left_to_right")
    after: int
    """For the next call."""


class Nothing(Answer):
    """An empty object."""
