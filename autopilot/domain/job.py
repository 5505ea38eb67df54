"""Jobs: what the user asked for (``JobSpec``) and its state (``Job``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from autopilot.domain import gpu_names
from autopilot.domain.after import After, waited_for
from autopilot.domain.array import ArraySpec
from autopilot.domain.cadence import Cadence
from autopilot.domain.code import NO_CODE, CodeSpec, JobCode
from autopilot.domain.host import NO_NEEDS, HostNeeds
from autopilot.domain.lease import Lease, Slot
from autopilot.domain.money import ZERO, Number
from autopilot.domain.offer import OfferQuery
from autopilot.domain.reasons import Reason
from autopilot.domain.registry import Registry
from autopilot.domain.start_faults import FailedStart, StartCause


class JobStatus(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    """By the provider; disk kept and billed."""
    RECOVERING = "recovering"
    MIGRATING = "migrating"
    STOPPING = "stopping"
    """The user wants it parked: its machine saves first."""
    PARKED = "parked"
    """By us (budget) or by the user; ``autopilot resume`` goes on from the last checkpoint."""
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)

    @property
    def wants_capacity(self) -> bool:
        return not self.is_final and self not in (JobStatus.STOPPING, JobStatus.PARKED, JobStatus.CANCELLING)


class SpotPolicy(StrEnum):
    AUTO = "auto"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Trust(StrEnum):
    ANY = "any"
    VERIFIED = "verified"
    SECURE = "secure"


@dataclass(frozen=True, slots=True)
class GpuChoice:
    name: str
    """As the user wrote it; ``gpu_names`` lists the models that it means."""
    count: int = 1


def pace_key(gpu: str, count: int) -> str:
    return f"{gpu}:{count}"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The job file, read. Every key is explained in docs/reference/job-file.md."""

    name: str
    image: str
    run: str
    gpus: tuple[GpuChoice, ...]
    setup: str = ""
    workdir: str = "/workspace"
    trust: Trust = Trust.VERIFIED
    env: tuple[tuple[str, str], ...] = ()
    min_vram_gb: Decimal = ZERO
    disk_gb: Decimal = Decimal(20)
    host: HostNeeds = NO_NEEDS
    """What it asks of the machine around the GPUs."""
    max_hourly: Decimal | None = None
    """$/h: offers dearer than this (compute, whole machine) are never taken."""
    work_estimate: timedelta | None = None
    work_at_most: timedelta | None = None
    """How long it may take at the most: the user's word, or what the user's past estimates say."""
    work_on: str | None = None
    """The GPU that the estimate is for; None: it holds for any that the job may use."""
    spot_policy: SpotPolicy = SpotPolicy.AUTO
    max_bid: Decimal | None = None
    deadline: datetime | None = None
    fall_back: bool = True
    """Buy on-demand when only that can still meet the deadline."""
    budget: Decimal | None = None
    max_rate: Decimal | None = None
    """$/h: everything this job burns at once, disks included."""
    cancel_when_exhausted: bool = False
    checkpoint_path: str | None = None
    checkpoint_interval: timedelta = timedelta(minutes=10)
    interval_is_fixed: bool = False
    """The user chose the interval; otherwise it follows what a checkpoint costs and how often machines are lost."""
    max_loss: timedelta | None = None
    """Work that a sudden loss may cost at most, as far as uploads are fast enough."""
    checkpoints_kept: int = 2
    progress: str = ""
    """How to read progress from the output: a regular expression, ``json`` or ``off``; empty: it is recognised."""
    stall_after: timedelta | None = None
    stall_fails: bool = False
    max_duration: timedelta | None = None
    """A run of the command that lasts for longer on one machine is ended, and the job has failed."""
    registry: Registry | None = None
    """Who may pull the image; None: anybody."""
    secrets: tuple[tuple[str, str], ...] = ()
    """(variable, name of the secret that it holds)."""
    inputs: tuple[tuple[str, str], ...] = ()
    """(file beneath the work directory, where it is fetched from before the run)."""
    inputs_gb: Decimal = ZERO
    """Size of all of them together, as far as the job file says."""
    outputs: tuple[str, ...] = ()
    """Paths or patterns beneath the work directory that are kept when the job has succeeded."""
    outputs_gb: Decimal = ZERO
    """Their size, if the job file says."""
    code: CodeSpec | None = None
    as_root: bool = False
    """``run`` needs to be root; otherwise it gets a user of its own where the machine allows it."""
    in_bash: bool = False
    """``run`` and ``setup`` are for bash with ``pipefail`` if the image has it. Older versions' jobs are for sh."""
    may_exec: bool = True
    """``autopilot exec`` may run commands on its machines."""
    ssh_key: str = ""
    """Public key that may log in to its machines; empty: none may."""
    hold: timedelta | None = None
    """For so long the machine stays on which the last attempt failed."""
    after: tuple[After, ...] = ()
    """The jobs that have to end before anything is rented for this one."""
    due_within: timedelta | None = None
    """Counted from when those have ended, or from when a firing is due: ``deadline`` is not known before."""
    schedule: Cadence | None = None
    """When a job is to be made of it; None: at once, and once. Jobs have none themselves."""
    array: ArraySpec | None = None
    """It is one job of many tasks; the rest of the file holds for each of them, budget and deadline for all."""
    tags: tuple[tuple[str, str], ...] = ()
    """(key, value): the user's own words for what it belongs to, by which spend can be grouped."""
    notify: tuple[str, ...] | None = None
    """Sinks that its notices go to; None: those that the settings name for all."""
    max_attempts: int = 3
    """Failures of the user's own command before the job is FAILED; preemptions never count."""

    @property
    def query(self) -> OfferQuery:
        wanted = ((name, gpu.count) for gpu in self.gpus for name in gpu_names.expand(gpu.name))
        return OfferQuery(
            gpus=tuple(dict.fromkeys(wanted)),
            min_vram_gb=max(self.min_vram_gb, min(gpu_names.least_gb(gpu.name) for gpu in self.gpus)),
            disk_gb=self.disk_gb,
            verified_only=self.trust is not Trust.ANY,
            datacenter_only=self.trust is Trust.SECURE or self.host.datacenter,
            host=self.host,
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint that the daemon has verified, byte for byte."""

    job_id: str
    lease_id: str
    number: int
    run_epoch: int
    step: int
    work_done: timedelta
    """Useful work that it holds, on this program's own clock."""
    size_bytes: int
    part_count: int
    verified_at: datetime
    is_suspect: bool = False
    """By its machine's word it was copied while files of it may have been half written."""
    is_set_aside: bool = False
    """Passed over for an older one, until that has proved better."""

    @property
    def age(self) -> tuple[int, int]:
        """Of two checkpoints of one job, the one with the greater age was made later."""
        return self.run_epoch, self.number

    @property
    def order(self) -> tuple[bool, bool, int, int]:
        """A run begins from the one with the greatest order: the newest whole one, else the newest that is suspect."""
        return not self.is_set_aside, not self.is_suspect, self.run_epoch, self.number


@dataclass(frozen=True, slots=True)
class Job:
    """One job with its leases that are not yet over."""

    id: str
    spec: JobSpec
    status: JobStatus
    reason: Reason
    submitted_at: datetime
    run_epoch: int = 0
    left_for: tuple[str, ...] = ()
    """For what machines were left that their check on arrival had found: a kind of ``arrival.LACKS`` each time, until a
    machine comes that does not show it."""
    memory_kill: tuple[tuple[str, Number], ...] = ()
    """Of the newest run that was killed for memory: ``MEMORY_KILL``; empty: none was."""
    launches: int = 0
    """Leases ever intended for this job, or handed over to it by another task."""
    fruitless: int = 0
    """Launches in a row that never got as far as running the command."""
    failed_starts: tuple[FailedStart, ...] = ()
    """Those launches, and machines that say that they will be some; the newest last. An older version counted only."""
    parked_at: datetime | None = None
    failures: int = 0
    """Exits of the user's command with an error."""
    excused: int = 0
    """Those of a task that were its machine's fault, and used up no attempt: one at the most."""
    work_done: timedelta = timedelta(0)
    """Useful work done so far, counted while the command ran; falls back to the checkpoint's on a loss."""
    progress: Decimal | None = None
    """0..1 as the job itself claims, or None."""
    step: int = 0
    paces: tuple[tuple[str, Number], ...] = ()
    """Share of the job done per hour, by ``pace_key`` of the GPUs it was seen on: from the job's own progress.

    What a slow machine does is not among it.
    """
    slow_on: tuple[str, ...] = ()
    """Those GPUs on which the last machine was slow beside that: if the next one is as well, it is the job."""
    checkpoint: Checkpoint | None = None
    exit_code: int | None = None
    finished_at: datetime | None = None
    spent: Decimal = ZERO
    """Posted to the ledger so far."""
    held: Decimal = ZERO
    """Held back for machines that are gone and whose bills are not yet believed."""
    is_estimate: bool = False
    """What a task has spent is in part its share of a machine that other tasks used, too, and whose bill is not yet
    believed."""
    decisions: int = 0
    """Decisions recorded so far; the next one's id is made of it."""
    owner: int = 0
    """The uid that submitted it."""
    code: JobCode = NO_CODE
    certifies: str = ""
    """The market whose claims it settles, by the script of ``certify``; empty: an ordinary job."""
    file_sha256: str = ""
    """Digest of the content of its job file, in any order and notation; empty: recorded by an older version."""
    predecessors_ended_at: datetime | None = None
    """When the last of the jobs that it waits for had ended, each as asked; None: not yet, or it waits for none."""
    schedule_id: str | None = None
    """The schedule of which it is a firing; None: it was submitted as a job."""
    due_at: datetime | None = None
    """When that firing was due. No two jobs have one schedule and one such instant."""
    array_id: str | None = None
    """The array of which it is a task; None: it is no task."""
    task: int | None = None
    """Which one, from 0; unique within the array."""
    leases: tuple[Lease, ...] = field(default=())

    @property
    def is_array(self) -> bool:
        """It has tasks, which are jobs, and never a machine of its own."""
        return self.spec.array is not None

    @property
    def waits_for_jobs(self) -> bool:
        """Nothing is rented for it before others have ended."""
        return bool(waited_for(self.spec.after)) and self.predecessors_ended_at is None and not self.status.is_final

    @property
    def silent_starts(self) -> int:
        """Machines in a row that were given up, never ran the command and did not say why."""
        return sum(each.is_over and each.cause is StartCause.UNKNOWN for each in self.failed_starts)

    def lease_in(self, slot: Slot) -> Lease | None:
        """The lease that holds the slot, or None. Leases on their way out hold none."""
        return next((lease for lease in self.leases if lease.slot is slot and lease.is_wanted), None)

    @property
    def main(self) -> Lease | None:
        return self.lease_in(Slot.MAIN)

    @property
    def on_hold(self) -> Lease | None:
        """The machine that stays although the job has failed."""
        main = self.main
        return main if main is not None and main.held_until is not None else None

    @property
    def next(self) -> Lease | None:
        return self.lease_in(Slot.NEXT)

    @property
    def remaining_work(self) -> timedelta | None:
        """Work still to do by the estimate and the better of claim and own count; None without an estimate."""
        estimate = self.spec.work_estimate
        if estimate is None:
            return None
        if self.progress is not None and self.progress > 0:
            return estimate * float(1 - min(self.progress, Decimal(1)))
        return max(estimate - self.work_done, timedelta(0))
