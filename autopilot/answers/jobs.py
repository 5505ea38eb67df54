"""Jobs: their machines, their money, and what was decided for them."""

from __future__ import annotations

from autopilot.answers.money import Counted, JobSpend, Receipt
from autopilot.answers.plans import Forecast, Plan
from autopilot.answers.record import record
from autopilot.answers.scalars import Described, Instant, Money, Number, Scalar, Seconds
from autopilot.domain.after import On
from autopilot.domain.job import JobStatus


@record(frozen=True, kw_only=True)
class Gpu(Described):
    busy: float | None
    memory_used: int | None
    memory_total: int | None


@record(frozen=True, kw_only=True)
class Recognised(Described):
    """Progress that was recognised in the output or files of a job that reports none. It frees held time."""

    form: str
    step: int | None
    fraction: float
    confidence: float
    left_s: Seconds | None = None
    seen: float = 0.0


@record(frozen=True, kw_only=True)
class NewestReadings(Described):
    """As reported by the machine. Fractions and loads are numbers, sizes bytes."""

    at: Instant | None
    gpus: list[Gpu] | None
    disk_free: int | None
    load: float | None
    still_s: float | None
    recognised: Recognised | None = None


@record(frozen=True, kw_only=True)
class Lease(Described):
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


@record(frozen=True, kw_only=True)
class PaidLease(Counted, Lease):
    pass


@record(frozen=True, kw_only=True)
class TakenCode(Described):
    """The copy of the user's code that a job runs."""

    sha256: str
    files: int
    size_bytes: int
    commit: str | None
    is_dirty: bool


@record(frozen=True, kw_only=True)
class NewestCheckpoint(Described):
    """Where the next run starts, or where the present one started if it has saved none yet."""

    number: int
    step: int
    lease_id: str
    run_epoch: int
    state: str
    """``safe``, or ``suspect``: it may be torn, but there is no other."""
    part_count: int
    verified_at: Instant


@record(frozen=True, kw_only=True)
class FailedStart(Described):
    """The newest machine on which the command never ran."""

    lease_id: str
    fault: str
    """See docs/explanation/images.md; empty if nothing known was said."""
    cause: str
    """Who must act: ``image``, ``login``, ``limit``, ``host`` or ``unknown``."""
    remedy: str
    message: str
    """As the market or the host said it, as far as it was kept."""
    at: Instant


@record(frozen=True, kw_only=True)
class Note(Described):
    topic: str
    numbers: dict[str, Scalar]


@record(frozen=True, kw_only=True)
class Waiting(Described):
    """Why nothing runs for a job, as of the last tick."""

    at: Instant
    vetoes: list[Note]
    notes: list[Note]


@record(frozen=True, kw_only=True)
class Predecessor(Described):
    """A job that another waits for, or has waited for."""

    job: str
    """Its id."""
    name: str | None
    """Null, like ``status``, in lists if the job has ended."""
    on: On
    status: JobStatus | None


@record(frozen=True, kw_only=True)
class Tasks(Described):
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


@record(frozen=True, kw_only=True)
class Job(Counted):
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
    failed_start: FailedStart | None
    """Null once the command runs."""
    waiting: Waiting | None


@record(frozen=True, kw_only=True)
class JobAnswer(Described):
    job: Job


@record(frozen=True, kw_only=True)
class FoundCheckpoint(Described):
    lease_id: str
    number: int
    step: int
    run_epoch: int
    size_bytes: int
    age_s: Seconds | None
    """Since the lost daemon verified it; null: it did not."""


@record(frozen=True, kw_only=True)
class FoundMachine(Described):
    lease_id: str
    provider: str
    instance_id: str | None
    state: str
    """As in the lost ledger."""
    rented_at: Instant
    per_hour: Money


@record(frozen=True, kw_only=True)
class PassedOver(Described):
    lease_id: str
    number: int | None
    """Null: it concerns the machine."""
    why: str


@record(frozen=True, kw_only=True)
class FoundInStore(Described):
    checkpoint: FoundCheckpoint | None
    """The newest complete one; null: none is newer than the ledger's."""
    machines: list[FoundMachine]
    """Those missing from the ledger."""
    passed_over: list[PassedOver]


@record(frozen=True, kw_only=True)
class Resumed(JobAnswer):
    store: FoundInStore | None = None
    """Only for a dry run with ``from_store``; null while it is still being read: ask again."""


@record(frozen=True, kw_only=True)
class Submitted(Described):
    """``job`` is null for a dry run."""

    job: Job | None
    plan: Plan


@record(frozen=True, kw_only=True)
class SubmittedSet(Described):
    """In the order of the request."""

    jobs: list[Submitted]


@record(frozen=True, kw_only=True)
class Changed(Described):
    job: Job
    plan: Plan | None
    """If it leaves less than before."""


@record(frozen=True, kw_only=True)
class Retried(Described):
    job: Job
    """The array, or the one named task."""
    tasks: list[int]
    """Those that restart."""


@record(frozen=True, kw_only=True)
class Cancelled(Described):
    job: Job
    unrecorded: str | None = None
    """Why the ledger could not record it. It takes effect anyway."""


@record(frozen=True, kw_only=True)
class Checkpoint(Described):
    number: int
    step: int
    lease_id: str
    state: str
    """``safe``, ``suspect``, or ``set_aside`` for an older one."""
    size_bytes: int
    verified_at: Instant


@record(frozen=True, kw_only=True)
class Bid(Described):
    lease_id: str
    at: Instant
    bid: Money
    outcome: str
    decision_id: str | None


@record(frozen=True, kw_only=True)
class Event(Described):
    seq: int
    at: Instant
    name: str
    job_id: str | None
    lease_id: str | None
    fields: dict[str, Scalar]


@record(frozen=True, kw_only=True)
class JobLife(Described):
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


@record(frozen=True, kw_only=True)
class Decided(Described):
    id: str
    at: Instant
    actions: list[Note]
    vetoes: list[Note]
    notes: list[Note]


@record(frozen=True, kw_only=True)
class Decision(Decided):
    answers: list[Event]
    """Events of the requested machine."""
    bids: list[Bid]


@record(frozen=True, kw_only=True)
class Why(Described):
    job: Job
    decisions: list[Decision]
    """Newest first."""


@record(frozen=True, kw_only=True)
class LogChunk(Described):
    key: str
    lease_id: str
    boot: int
    where: str
    text: str


@record(frozen=True, kw_only=True)
class Logs(Described):
    chunks: list[LogChunk]
    """At most 1 MB of output."""
    earlier: bool
    """Whether there is output before them."""
    finished: bool
