"""Jobs: their machines, their money, and what was decided for them."""

from __future__ import annotations

from typing import Any

from pydantic import Field, RootModel

from autopilot.answers.models.base import Answer, Asked, Query, Scalar, Share
from autopilot.answers.models.plans import Forecast, Plan
from autopilot.answers.money import JobSpend, Receipt
from autopilot.answers.scalars import Instant, Money, Number, Seconds
from autopilot.domain.after import On
from autopilot.domain.array import MOST_TABLE_BYTES
from autopilot.domain.code import MOST_BYTES
from autopilot.domain.job import JobStatus
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


class Gpu(Answer):
    busy: float | None
    memory_used: int | None
    memory_total: int | None


class NewestReadings(Answer):
    """As reported by the machine. Fractions and loads are numbers, sizes bytes."""

    at: Instant | None
    gpus: list[Gpu] | None
    disk_free: int | None
    load: float | None
    still_s: float | None


class Lease(Answer):
    """One machine: requested, held, or released."""

    id: str
    slot: str
    state: str
    status: str
    provider: str
    instance_id: str | None
    machine_id: str
    gpu: str
    num_gpus: int
    capacity_type: str
    bid: Money
    storage_rate: Money
    floor: Money | None
    on_demand_price: Money | None
    reason: str
    pause_cause: str | None
    intended_at: Instant
    running_since: Instant | None
    gone_at: Instant | None
    settled_at: Instant | None
    agent_state: str
    stalled_since: Instant | None
    readings: NewestReadings | None
    role: str
    label: str


class PaidLease(Lease):
    posted: Money
    accrued: Money
    held: Money


class TakenCode(Answer):
    """The copy of the user's code that a job runs."""

    sha256: str
    files: int
    size_bytes: int
    commit: str | None
    is_dirty: bool


class NewestCheckpoint(Answer):
    """Where the next run starts, or where the present one started if it has saved none yet."""

    number: int
    step: int
    lease_id: str
    run_epoch: int
    state: str
    """``safe``, or ``suspect``: it may be torn, but there is no other."""
    part_count: int
    verified_at: Instant


class Note(Answer):
    topic: str
    numbers: dict[str, Scalar]


class Waiting(Answer):
    """Why nothing runs for a job, as of the last tick."""

    at: Instant
    vetoes: list[Note]
    notes: list[Note]


class Predecessor(Answer):
    """A job that another waits for, or has waited for."""

    job: str
    """Its id."""
    name: str | None
    """Null, like ``status``, in lists if the job has ended."""
    on: On
    status: JobStatus | None


class Tasks(Answer):
    """The tasks of an array by state."""

    count: int
    needed: int
    """How many must succeed."""
    parallel: int
    max_failures: int | None
    unbegun: int
    waiting: int
    """For a machine, or while one is being set up."""
    running: int
    parked: int
    ending: int
    succeeded: int
    failed: int
    cancelled: int


class Job(Answer):
    id: str
    name: str
    array: str | None
    """The id of its array, if it is a task."""
    task: int | None
    tasks: Tasks | None
    """Only for an array."""
    status: JobStatus
    reason: str
    submitted_at: Instant
    owner: int
    """The uid of the submitter; a negative number identifies a token."""
    code: TakenCode | None
    finished_at: Instant | None
    deadline: Instant | None
    due_within_s: Seconds | None
    """Set while the deadline still depends on the end of other jobs."""
    schedule: str | None
    """The id of the schedule that created it or its array."""
    due_at: Instant | None
    """When that firing was due."""
    after: list[Predecessor]
    slack_s: Seconds | None
    verdict: str | None
    progress: Number | None
    """0 to 1, as reported by the job."""
    step: int
    work_done_s: Seconds
    estimate_s: Seconds | None
    posted: Money
    """In the ledger."""
    accrued: Money
    """Since the last posting, by our own clock."""
    held: Money
    """What limits count in addition to the two."""
    is_estimate: bool
    """``posted`` is in part its share of a machine that other tasks used, too, and whose bill is not yet complete."""
    budget: Money | None
    run_epoch: int
    failures: int
    exit_code: int | None
    checkpoint: NewestCheckpoint | None
    main: Lease | None
    next: Lease | None
    held_until: Instant | None
    waiting: Waiting | None


class Chosen(RootModel[dict[str, Any]]):
    """With ``fields``: only those."""


class JobAnswer(Answer):
    job: Job


class FoundCheckpoint(Answer):
    lease_id: str
    number: int
    step: int
    run_epoch: int
    size_bytes: int
    age_s: Seconds | None
    """Since the lost daemon verified it; null: it did not."""


class FoundMachine(Answer):
    lease_id: str
    provider: str
    instance_id: str | None
    state: str
    """As in the lost ledger."""
    rented_at: Instant
    per_hour: Money


class PassedOver(Answer):
    lease_id: str
    number: int | None
    """Null: it concerns the machine."""
    why: str


class FoundInStore(Answer):
    checkpoint: FoundCheckpoint | None
    """The newest complete one; null: none is newer than the ledger's."""
    machines: list[FoundMachine]
    """Those missing from the ledger."""
    passed_over: list[PassedOver]


class Resumed(JobAnswer):
    store: FoundInStore | None = None
    """Only for a dry run with ``from_store``; null while it is still being read: ask again."""


class Submitted(Answer):
    """``job`` is null for a dry run."""

    job: Job | None
    plan: Plan


class SubmittedSet(Answer):
    """In the order of the request."""

    jobs: list[Submitted]


class Changed(Answer):
    job: Job
    plan: Plan | None
    """If it leaves less than before."""


class Retried(Answer):
    job: Job
    """The array, or the one named task."""
    tasks: list[int]
    """Those that restart."""


class Cancelled(Answer):
    job: Job
    unrecorded: str | None = None
    """Why the ledger could not record it. It takes effect anyway."""


class Jobs(Answer):
    jobs: list[Job] | list[Chosen] = Field(union_mode="left_to_right")
    next: str | None
    """Where the next page begins; null: this is the last one."""


class Checkpoint(Answer):
    number: int
    step: int
    lease_id: str
    state: str
    """``safe``, ``suspect``, or ``set_aside`` for an older one."""
    size_bytes: int
    verified_at: Instant


class Bid(Answer):
    lease_id: str
    at: Instant
    bid: Money
    outcome: str
    decision_id: str | None


class Event(Answer):
    seq: int
    at: Instant
    name: str
    job_id: str | None
    lease_id: str | None
    fields: dict[str, Scalar]


class JobLife(Answer):
    job: Job
    leases: list[PaidLease]
    checkpoints: list[Checkpoint]
    bids: list[Bid]
    events: list[Event]
    """The newest 1000, in order."""
    spend: JobSpend
    forecast: Forecast | None
    """The newest one, if there is any; renewed every half hour."""
    receipt: Receipt | None = None
    """Only for a job that has ended."""


class Decision(Answer):
    id: str
    at: Instant
    actions: list[Note]
    vetoes: list[Note]
    notes: list[Note]
    answers: list[Event]
    """Events of the requested machine."""
    bids: list[Bid]


class Why(Answer):
    job: Job
    decisions: list[Decision]
    """Newest first."""


class LogChunk(Answer):
    key: str
    lease_id: str
    boot: int
    where: str
    text: str


class Logs(Answer):
    chunks: list[LogChunk]
    """At most 1 MB of output."""
    earlier: bool
    """Whether there is output before them."""
    finished: bool


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
    """URLs of the index and of each part."""


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
    """Numbers of the parts still to be sent; null: the index is still to be sent."""


class CodeBegun(Answer):
    missing: list[int]


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


class Nothing(Answer):
    """An empty object."""
