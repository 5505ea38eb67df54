"""What happened to a job and its leases: the input of ``evolve``, and, by name, the event log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from autopilot.domain.agent_state import AgentState
from autopilot.domain.instance import Instance
from autopilot.domain.job import Checkpoint, JobSpec, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.money import Number
from autopilot.domain.readings import Readings
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import NO_EVIDENCE, StopEvidence


@dataclass(frozen=True, slots=True)
class LeaseIntended:
    """The decision to rent, about to be committed; nothing was sent yet."""

    lease: Lease
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseAcquired:
    """The market rented it to us: it said so, or its list shows our label."""

    lease_id: str
    instance_id: str
    at: datetime
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class LeaseRefused:
    """A known no. With ``instance_id`` something was created all the same, and must be destroyed."""

    lease_id: str
    reason: Reason
    message: str
    instance_id: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseUncertain:
    """It is unknown whether the create took effect."""

    lease_id: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseMissed:
    """A complete list, begun after the intent, shows no instance with the label of an unresolved create."""

    lease_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseAbandoned:
    lease_id: str
    reason: Reason
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseObserved:
    """The market shows the instance. ``evidence``: of its stop, if it is stopped.

    ``ran_until``: it is stopped, and cannot have run longer than until then. None: unknown.
    """

    lease_id: str
    instance: Instance
    at: datetime
    evidence: StopEvidence = NO_EVIDENCE
    ran_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ImageLoginRefused:
    """The image was not given out, or there was no password to ask with. ``secret``: empty without ``[registry]``."""

    lease_id: str
    server: str
    secret: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class BootFailed:
    """A machine's market or host says why it did not bring the container up, or keep it. ``fault``: of ``FAULTS``."""

    lease_id: str
    fault: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NoticeChanged:
    """The market means to take the machine away, or no more: ``kind`` is empty then. ``ends_at``: in its own words."""

    lease_id: str
    kind: str
    ends_at: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseAbsent:
    """A complete list does not show the instance."""

    lease_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """Proof: absent from complete lists and from a single read. ``taken_over``: both show it under another label.

    ``ran_until``: it cannot have lasted longer than until then. None: unknown.
    """

    lease_id: str
    at: datetime
    taken_over: bool = False
    ran_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class BidIntended:
    """About to be sent. From now on the higher of the two bids is assumed to bill, even if the call fails."""

    lease_id: str
    bid: Decimal
    at: datetime


@dataclass(frozen=True, slots=True)
class BidChanged:
    """The market took it; ``bid`` as the market rounds it."""

    lease_id: str
    bid: Decimal
    at: datetime


@dataclass(frozen=True, slots=True)
class BidRefused:
    """The market refused: ``bid`` is the one still in force.

    ``is_rung_used``: another try would be answered alike. ``may_retry``: the refusal was momentary, and the same bid
    may be sent again at once.
    """

    lease_id: str
    bid: Decimal
    at: datetime
    is_rung_used: bool = False
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class StartIntended:
    """About to ask the market to start a machine again at the bid that it has."""

    lease_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StartFailed:
    """The market did not accept it, or this is unknown: it is to be asked again.

    ``at_once``: without a pause. Otherwise a while passes first, as after a raise.
    """

    lease_id: str
    at: datetime
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    lease_id: str
    reason: Reason
    at: datetime


@dataclass(frozen=True, slots=True)
class InstanceFound:
    """The market shows an instance for a lease that was thought over: it must be destroyed (again).

    ``only_billed``: no list shows it. The bill does, and says what it cost until now.
    """

    lease_id: str
    instance_id: str
    at: datetime
    only_billed: bool = False


@dataclass(frozen=True, slots=True)
class DestroySent:
    """``accepted``: the market said yes, or that there is no such instance. A claim, not proof."""

    lease_id: str
    accepted: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class StopOrdered:
    """The agent is told to save and stop."""

    lease_id: str
    reason: Reason
    at: datetime


@dataclass(frozen=True, slots=True)
class LeasePromoted:
    lease_id: str
    reason: Reason
    at: datetime


@dataclass(frozen=True, slots=True)
class RunOrdered:
    """A machine whose run has ended is to run the command once more, under a new run epoch."""

    lease_id: str
    reason: Reason
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseHandedOver:
    """The task has ended, and its machine is another task's from now on."""

    lease_id: str
    task: int
    """The number of that one."""
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseInherited:
    """The machine of a task that has ended runs this one next, without a boot: under a new run epoch."""

    lease: Lease
    """As the other task left it."""
    at: datetime


@dataclass(frozen=True, slots=True)
class LeaseRegained:
    """The store tells of a machine of the job that the ledger does not know: it was put back from an older copy."""

    lease: Lease
    """As the ledger that was lost had it."""
    at: datetime


@dataclass(frozen=True, slots=True)
class EpochRaised:
    """The store tells of runs that the ledger does not know: the next one is fenced from all of them."""

    run_epoch: int
    at: datetime


@dataclass(frozen=True, slots=True)
class HoldBegun:
    """The job is over, and its machine stays: for its owner to look into it, or until its permit has lapsed."""

    lease_id: str
    until: datetime
    at: datetime
    is_proof: bool = False
    """It gets no more permits, and is to destroy itself."""


@dataclass(frozen=True, slots=True)
class HeartbeatSeen:
    lease_id: str
    boot: int
    seq: int
    agent_state: AgentState
    step: int | None
    progress: Decimal | None
    last_checkpoint_number: int | None
    log_count: int
    saved: bool
    at: datetime
    sent_bytes: int = 0
    """By this boot of the agent so far, as it claims."""
    most_bytes: int = 0
    """All boots together can have sent no more than this."""
    can_run_again: bool = False
    can_take_next: bool = False
    readings: Readings | None = None


@dataclass(frozen=True, slots=True)
class CheckpointVerified:
    checkpoint: Checkpoint
    at: datetime


@dataclass(frozen=True, slots=True)
class RunExited:
    """The user's command ended; valid only with the job's current run epoch."""

    lease_id: str
    run_epoch: int
    exit_code: int
    at: datetime
    is_of_host: bool = False
    """It failed by the machine."""
    is_of_command: bool = True
    """Not by what comes before the command."""
    is_syntax: bool = False
    """No shell can read the command: another attempt would end in the same way."""
    has_saved: bool | None = None
    """It had made a checkpoint before; None: the agent does not say so."""
    memory: tuple[int, int] | None = None
    """Peak and limit in bytes, by the machine's word, where the kernel has killed for want of memory."""
    began_from: tuple[int, int] | None = None
    """``age`` of the checkpoint that was restored for it."""


@dataclass(frozen=True, slots=True)
class RunRestored:
    """The agent has put a checkpoint back for the run that it begins."""

    lease_id: str
    run_epoch: int
    number: int
    at: datetime


@dataclass(frozen=True, slots=True)
class CheckpointChosen:
    """The next run begins from it; None: from nothing. Those that were made since are set aside."""

    checkpoint: Checkpoint | None
    at: datetime


@dataclass(frozen=True, slots=True)
class PermitRenewed:
    """``ttl_s``: how long it lasts from its receipt; None: as long as the settings say."""

    lease_id: str
    seq: int
    at: datetime
    ttl_s: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseSettled:
    """The ledger now agrees with what the market billed for it."""

    lease_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StatusSet:
    """The job itself was moved: parked, resumed, cancelled, failed."""

    status: JobStatus
    reason: Reason
    at: datetime
    numbers: tuple[tuple[str, Number], ...] = field(default=(), compare=False)
    """For the event log alone."""


@dataclass(frozen=True, slots=True)
class PredecessorsEnded:
    """All jobs that it waits for have ended as asked, the last of them at ``ended_at``."""

    ended_at: datetime
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """A finished task restarts once there is a place for it: from its checkpoint, with all its attempts."""

    at: datetime


@dataclass(frozen=True, slots=True)
class TaskExcused:
    """A failed task restarts elsewhere: the machine that failed it failed the next one as well."""

    at: datetime


@dataclass(frozen=True, slots=True)
class SpecChanged:
    """The user changed what the job may cost, or when it is due; the rest of ``spec`` is as it was."""

    spec: JobSpec
    at: datetime


Event = (
    LeaseIntended
    | LeaseAcquired
    | LeaseRefused
    | LeaseUncertain
    | LeaseMissed
    | LeaseAbandoned
    | LeaseObserved
    | ImageLoginRefused
    | BootFailed
    | NoticeChanged
    | LeaseAbsent
    | LeaseGone
    | BidIntended
    | BidChanged
    | BidRefused
    | StartIntended
    | StartFailed
    | ReleaseRequested
    | InstanceFound
    | DestroySent
    | StopOrdered
    | LeasePromoted
    | RunOrdered
    | LeaseHandedOver
    | LeaseInherited
    | LeaseRegained
    | EpochRaised
    | HoldBegun
    | HeartbeatSeen
    | CheckpointVerified
    | CheckpointChosen
    | RunRestored
    | RunExited
    | PermitRenewed
    | LeaseSettled
    | StatusSet
    | PredecessorsEnded
    | TaskRetried
    | TaskExcused
    | SpecChanged
)
