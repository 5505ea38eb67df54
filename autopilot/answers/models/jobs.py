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
    """What a submit says of the code that was sent before."""

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
    """For an array: the maximum number of tasks at once."""
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
    """Only jobs of this owner: a user's name, ``token:NAME``, ``proxy:NAME``, or a number."""
    fields: str = ""
    """Names of fields, with commas between: the answer has no others."""
    tasks: bool = False
    """Also list the open tasks of arrays, one by one."""
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


class Gpu(Answer):
    busy: float | None
    memory_used: int | None
    memory_total: int | None


class NewestReadings(Answer):
    """What the machine says of itself. Fractions and loads are numbers, sizes bytes."""

    at: Instant | None
    gpus: list[Gpu] | None
    disk_free: int | None
    load: float | None
    still_s: float | None


class Lease(Answer):
    """One machine: asked for, held, or given back."""

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
    """From which the next run begins, or the present one has begun if it has made none yet."""

    number: int
    step: int
    lease_id: str
    run_epoch: int
    state: str
    """``safe``, or ``suspect``: it may be torn, and there is no other."""
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
    """Null, like ``status``, in lists of jobs that are over."""
    on: On
    status: JobStatus | None


class Tasks(Answer):
    """How the tasks of an array stand."""

    count: int
    needed: int
    """So many have to succeed."""
    parallel: int
    max_failures: int | None
    unbegun: int
    waiting: int
    """For a machine, or while one is made ready."""
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
    """The id of the array of which it is a task."""
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
    """Where the deadline counts from when other jobs have ended, and they have not."""
    schedule: str | None
    """The id of the schedule of which it is a firing, or a task of one."""
    due_at: Instant | None
    """When that firing was due."""
    after: list[Predecessor]
    slack_s: Seconds | None
    verdict: str | None
    progress: Number | None
    """0 to 1, as the job says."""
    step: int
    work_done_s: Seconds
    estimate_s: Seconds | None
    posted: Money
    """In the ledger."""
    accrued: Money
    """Since the last posting, by our own clock."""
    held: Money
    """What limits count beside the two."""
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
    """With ``fields``: those alone."""


class JobAnswer(Answer):
    job: Job


class FoundCheckpoint(Answer):
    lease_id: str
    number: int
    step: int
    run_epoch: int
    size_bytes: int
    age_s: Seconds | None
    """Since the daemon that was lost had verified it; null: it had not."""


class FoundMachine(Answer):
    lease_id: str
    provider: str
    instance_id: str | None
    state: str
    """As the ledger that was lost had it."""
    rented_at: Instant
    per_hour: Money


class PassedOver(Answer):
    lease_id: str
    number: int | None
    """Null: it is about the machine."""
    why: str


class FoundInStore(Answer):
    checkpoint: FoundCheckpoint | None
    """The newest that is whole; null: none is newer than the ledger's."""
    machines: list[FoundMachine]
    """Those that the ledger does not know."""
    passed_over: list[PassedOver]


class Resumed(JobAnswer):
    store: FoundInStore | None = None
    """Only for a dry run with ``from_store``; null while it is still being read: ask again."""


class Submitted(Answer):
    """``job`` is null for a dry run."""

    job: Job | None
    plan: Plan


class SubmittedSet(Answer):
    """In the order in which they came."""

    jobs: list[Submitted]


class Changed(Answer):
    job: Job
    plan: Plan | None
    """Where it leaves less than before."""


class Retried(Answer):
    job: Job
    """The array, or the one task that was named."""
    tasks: list[int]
    """Those that restart."""


class Cancelled(Answer):
    job: Job
    unrecorded: str | None = None
    """Why the ledger could not take it. It holds all the same."""


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
    """The newest 1000, in their order."""
    spend: JobSpend
    forecast: Forecast | None
    """The newest, where anything could be said; renewed every half hour."""
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
    """There is output before them."""
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
